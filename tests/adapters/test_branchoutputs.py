"""Where a branch may write, and where a promoted job has to: refused before anything is there."""

from pathlib import Path

import pytest

from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.adapters.spark.session.streamoutputs import StreamOutputs
from firesteel.model.branches import Branch
from firesteel.model.ids import JobID
from firesteel.model.streams import SPARK_FILES, STREAM_FILES, StreamOutput


def files(place: Path | str) -> StreamOutput:
    return StreamOutput(kind=STREAM_FILES, place=str(place), format="parquet")


def outputs(place: Path, *, promoted: bool = False, moved: tuple[str, ...] = ()) -> StreamOutputs:
    parents = {"result": StreamOutput(kind=SPARK_FILES, place=str(place), format="parquet")}
    parents["calls"] = StreamOutput(kind="foreachBatch")
    return StreamOutputs(Branch(of=JobID("parent"), outputs=parents, promoted=promoted, moved=moved))


def test_what_is_no_branch_writes_anywhere(tmp_path: Path) -> None:
    found = StreamOutputs()
    found.take("result", files(tmp_path))
    assert found.known == {"result": files(tmp_path)}


def test_a_branch_has_an_output_of_its_own(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    branch = outputs(real)
    branch.take("result", files(tmp_path / "real2"))
    for place in (real, tmp_path / "link", real / "inside", tmp_path, tmp_path / "link/inside"):
        with pytest.raises(PipelineRefused, match="which it branches from, writes to"):
            branch.take("another", files(place))


def test_other_sinks_take_another_value_or_do_no_harm(tmp_path: Path) -> None:
    branch = outputs(tmp_path, moved=("calls",))
    branch.take("calls", StreamOutput(kind="foreachBatch"))
    branch.take("shown", StreamOutput(kind="console"))
    with pytest.raises(PipelineRefused, match=r"sink other writes by kafka, so whether .* can't be told"):
        branch.take("other", StreamOutput(kind="kafka"))


def test_a_promoted_job_goes_on_where_the_other_wrote(tmp_path: Path) -> None:
    promoted = outputs(tmp_path / "real", promoted=True)
    promoted.take("result", files(tmp_path / "real"))
    promoted.take("calls", StreamOutput(kind="foreachBatch"))
    promoted.take("unheard-of", files(tmp_path / "any"))
    for other in (files(tmp_path / "branch"), StreamOutput(kind="foreachBatch")):
        with pytest.raises(PipelineRefused, match="is to go on in"):
            promoted.take("result", other)
