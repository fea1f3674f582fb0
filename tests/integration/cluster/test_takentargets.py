"""Targets that others write while a job runs, in the modes that leave what is there."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from firesteel.adapters.spark.worker import sinkoutput
from firesteel.adapters.storage.sinks import commit_sink
from firesteel.minicluster import MiniCluster
from firesteel.model.states import JobStatus
from firesteel.model.tasks import Committed, SinkCommit
from tests.integration.cluster.files import Files
from tests.integration.cluster.test_sinks import SOURCE

pytestmark = pytest.mark.spark

COPY = """
@pipeline.sink
def copy(rows: DataFrame, output: str, mode: str) -> None:
    fs.write_parquet(rows, output, mode)
"""


@pytest.fixture
def taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Targets of commits that were tried: others write them when the rows are staged."""
    tried: list[Path] = []

    def comes_second(commit: SinkCommit, settings: Mapping[str, str]) -> Committed:
        tried.append(Path(commit.target))
        tried[-1].mkdir(exist_ok=True)
        (tried[-1] / "others").write_text("x")
        return commit_sink(commit, settings)

    monkeypatch.setattr(sinkoutput, "commit_sink", comes_second)
    return tried


def test_rows_that_ignore_leaves_out_are_not_counted_as_written(
    cluster: MiniCluster, files: Files, tmp_path: Path, taken: list[Path]
) -> None:
    parameters = {"output": str(tmp_path / "out"), "mode": "ignore"}
    job_id = files.do(files.submit(files.write(SOURCE + COPY), parameters))
    result = files.do(cluster.client.request_job_result(job_id))
    assert result.status is JobStatus.FINISHED, result.failure
    (sink,) = result.sinks
    assert (sink.files, sink.rows, sink.size_bytes) == (0, 0, 0)
    assert sink.note.startswith(f"{tmp_path / 'out'} was written while this job ran, and this leaves that as it is")
    written = [vertex.io for vertex in files.do(cluster.client.request_job(job_id)).vertices][-1]
    assert (written.rows_written, written.bytes_written) == (0, 0)
    assert os.listdir(tmp_path / "out") == ["others"]


def test_a_target_that_others_have_taken_is_not_waited_for(files: Files, tmp_path: Path, taken: list[Path]) -> None:
    output = tmp_path / "out"
    result = files.do(files.run(files.write(SOURCE + COPY), {"output": str(output), "mode": "error"}))
    assert result.status is JobStatus.FAILED
    assert result.failure is not None
    assert f"{output} exists and holds data; use mode='overwrite' or 'append'" in result.failure.message
    assert taken == [output], "tried once"
