"""Outputs of two jobs, as far as both have read the same since they parted."""

import asyncio
from pathlib import Path

import pyarrow
import pyarrow.parquet

from firesteel.adapters.storage.batchfiles import BatchFiles
from firesteel.client.comparing import Comparing
from firesteel.model.branches import Branch, branch_text
from firesteel.model.ids import JobID
from firesteel.model.options import BRANCH
from firesteel.model.states import JobStatus
from firesteel.model.streams import FAN_OUT, STREAM_FILES, QueryPosition, QuerySight, StreamOutput
from firesteel.model.views import JobView

FIRST, SECOND = JobID("1" * 32), JobID("2" * 32)


def written(root: Path, first_batch: int, *batches: int) -> StreamOutput:
    """An output with one row a batch."""
    files = BatchFiles.claim(root)
    for number, value in enumerate(batches, first_batch):
        staging = files.begin(number, "query")
        staging.mkdir()
        pyarrow.parquet.write_table(pyarrow.table({"v": [value]}), staging / "part.parquet")
        files.commit(number, staging)
    return StreamOutput(kind=STREAM_FILES, place=str(root), format="parquet", mode="append")


class Looked:
    """A client that tells of two jobs, the second of which has left the first after its batch 1."""

    def __init__(self, *outputs: StreamOutput) -> None:
        self._outputs = dict(zip((FIRST, SECOND), outputs, strict=True))

    async def request_job(self, job_id: JobID) -> JobView:
        note = branch_text(Branch(of=FIRST, savepoint="/saved", batches={"all": 1}))
        configuration = {BRANCH.key: note} if job_id == SECOND else {}
        return JobView(job_id=job_id, name="it", status=JobStatus.RUNNING, configuration=configuration)

    async def look_at_queries(self, job_id: JobID) -> tuple[QuerySight, ...]:
        read = tuple(QueryPosition(batch, f"up to {batch}") for batch in range(4))
        return (QuerySight(uid="all", output=self._outputs[job_id], positions=read),)


def fanned(**parts: StreamOutput) -> StreamOutput:
    return StreamOutput(kind=FAN_OUT, place="", format="", parts=parts)


def test_outputs_of_one_query_have_parted_where_the_query_has(tmp_path: Path) -> None:
    first, second = (
        fanned(even=written(tmp_path / job, start, *rows), odd=written(tmp_path / f"{job} odd", start, *more))
        for job, start, rows, more in (("a", 0, (0, 2, 4, 6), (1, 3, 5, 7)), ("b", 2, (4, 6), (5, 9)))
    )
    even, odd = asyncio.run(Comparing(Looked(first, second), FIRST, SECOND).compare())  # type: ignore[arg-type]
    assert (even.uid, even.after, even.rows.is_same, even.rows.equal) == ("all/even", 1, True, 2)
    assert (odd.uid, odd.after, odd.rows.only_first, odd.rows.only_second) == ("all/odd", 1, 1, 1)
