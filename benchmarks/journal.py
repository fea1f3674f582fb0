"""What it costs a submission that jobs outlive the master: with `filesystem` against `none`, turn and turn about."""

import asyncio
import contextlib
import tempfile
import time
import uuid
from pathlib import Path

import msgspec

from benchmarks.report import Report, Series, Verdict
from benchmarks.tasks import no_ops
from firesteel.assembly.jobmanager import JobManager
from firesteel.client.http import HttpClusterClient
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.options import Configuration

SUBMISSIONS, WARM_UP = 100, 50
"""Of a round, to each master."""
DIFFERENCE_MS_MAX = 3
KINDS = ("none", "filesystem")


def measure(rounds: int) -> Report:
    """Milliseconds from a submission to its acknowledgement. No worker is there: nothing runs beside it."""
    return asyncio.run(_measure(rounds))


async def _measure(rounds: int) -> Report:
    taken: dict[str, list[float]] = {kind: [] for kind in KINDS}
    async with contextlib.AsyncExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="firesteel-bench-")))
        graph = no_ops(folder, 1).graph
        clients = {kind: await _started(kind, folder, ends) for kind in KINDS}
        for number in range(-WARM_UP, rounds * SUBMISSIONS):
            for kind, client in clients.items():
                milliseconds = await _submit(client, graph)
                if number >= 0:
                    taken[kind].append(milliseconds)
    series = tuple(Series(f"submit, {kind}", "ms", tuple(values)) for kind, values in taken.items())
    without, kept = (each.median for each in series)
    verdict = Verdict("submit p50, filesystem - none", kept - without, "ms", at_most=DIFFERENCE_MS_MAX)
    return Report(case="journal", series=series, verdicts=(verdict,))


async def _started(kind: str, folder: Path, ends: contextlib.AsyncExitStack) -> HttpClusterClient:
    settings = {
        "high-availability.type": kind,
        "high-availability.storageDir": str(folder / "shared"),
        "jobmanager.rpc.address": "127.0.0.1",
        "jobmanager.rpc.port": "0",
        "rest.port": "0",
        "resourcemanager.standalone.start-up-time": "1 h",
    }
    master = JobManager(Configuration(settings))
    await master.start()
    ends.push_async_callback(master.stop)
    client = HttpClusterClient([master.rest.address])
    ends.push_async_callback(client.close)
    return client


async def _submit(client: HttpClusterClient, graph: JobGraph) -> float:
    job = msgspec.structs.replace(graph, job_id=JobID(uuid.uuid4().hex))
    begin = time.perf_counter()
    await client.submit_job(job, {})
    return (time.perf_counter() - begin) * 1_000
