"""Where a branch may write, and where a promoted job has to: refused before anything is there."""

from pathlib import Path

import pytest

from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.adapters.spark.session.streamoutputs import StreamOutputs
from firesteel.model.branches import Branch
from firesteel.model.ids import JobID
from firesteel.model.streams import FAN_OUT, FOREACH_BATCH, SPARK_FILES, STREAM_FILES, StreamOutput


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


def fan_out(*places: Path, function: bool = False) -> StreamOutput:
    parts = {f"part-{number}": files(each) for number, each in enumerate(places)}
    return StreamOutput(kind=FAN_OUT, parts=parts | ({"f": StreamOutput(kind=FOREACH_BATCH)} if function else {}))


def test_each_output_of_a_fan_out_is_looked_at(tmp_path: Path) -> None:
    parents = {"result": fan_out(tmp_path / "a", tmp_path / "b")}
    branch = StreamOutputs(Branch(of=JobID("parent"), outputs=parents))
    branch.take("result", fan_out(tmp_path / "c", tmp_path / "d"))
    with pytest.raises(PipelineRefused, match="which it branches from, writes to"):
        branch.take("other", fan_out(tmp_path / "e", tmp_path / "b"))
    with pytest.raises(PipelineRefused, match="other writes by foreachBatch"):
        branch.take("other", fan_out(tmp_path / "e", function=True))
    with pytest.raises(PipelineRefused, match="sinks other and result would both write to"):
        branch.take("other", fan_out(tmp_path / "e", tmp_path / "d"))
    promoted = StreamOutputs(Branch(of=JobID("parent"), outputs=parents, promoted=True))
    with pytest.raises(PipelineRefused, match=r"is to go on in .*/b, where"):
        promoted.take("result", fan_out(tmp_path / "a", tmp_path / "c"))
    with pytest.raises(PipelineRefused, match=r"would write to .*/a, and is to go on in .*/b, where"):
        promoted.take("result", files(tmp_path / "a"))
    promoted.take("result", fan_out(tmp_path / "b", tmp_path / "a", tmp_path / "more", function=True))


def test_the_mode_is_that_of_all_outputs(tmp_path: Path) -> None:
    assert {each.mode for each in fan_out(tmp_path).with_mode("update").named().values()} == {"update"}
