"""What a Spark job has printed is read when its worker, its master and its cluster are gone."""

import asyncio
from pathlib import Path

import pytest

from firesteel.adapters.history.gateway import HistoryGateway
from firesteel.adapters.history.index import HistoryIndex, Place
from firesteel.adapters.storage.files import DirectoryFiles
from firesteel.model.inquiries import FileList, FilePart, ListFiles, ReadFile
from firesteel.model.states import JobStatus
from tests.integration.cluster.test_command import Command, command

__all__ = ["command"]
pytestmark = pytest.mark.spark

PRINTS = """
@pipeline.source
def numbers(spark: SparkSession) -> DataFrame:
    print("hello from a function", spark.range(10).count(), "password=hunter2")
    return spark.range(10)

@pipeline.sink
def result(numbers: DataFrame, output: str) -> None:
    fs.write_parquet(numbers, output)
"""


def test_prints_outlive_the_cluster(command: Command, tmp_path: Path) -> None:
    """The cluster is that of `firesteel run`: nothing of it is there when the command has ended."""
    archive = tmp_path / "archive"
    process = command.start(PRINTS, "-D", f"jobmanager.archive.fs.dir={archive}")
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, out + err
    command.assert_gone()

    async def story() -> None:
        index = HistoryIndex([Place(str(archive), DirectoryFiles(archive))], forgets_deleted=False, retained=-1)
        await index.refresh()
        history = HistoryGateway(index)
        (job,) = await history.list_job_summaries()
        assert job.status is JobStatus.FINISHED
        result = await history.request_job_result(job.job_id)
        assert [(sink.function, sink.rows) for sink in result.sinks] == [("result", 10)]
        (worker,) = await history.list_log_holders(job.job_id)
        found = await history.ask_task_manager(worker, ListFiles(prefix=f"{job.job_id}_"))
        assert isinstance(found, FileList)
        (file,) = found.files
        printed = await history.ask_task_manager(worker, ReadFile(name=file.name))
        assert isinstance(printed, FilePart)
        assert b"hello from a function 10 password=******\n" in printed.data
        index.close()

    asyncio.run(story())
