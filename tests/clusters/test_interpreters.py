"""Jobs with a Python of their own on the executors of a real standalone cluster."""

import asyncio
from pathlib import Path

from firesteel.adapters.blob.local import LocalBlobStore
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.model.options import Configuration
from firesteel.model.tasks import JobInformation
from tests.clusters.conftest import SMALL
from tests.environments import environment, tarred, zipped
from tests.integration.spark.jobs import JobMaker, Runner, function, run
from tools.standalone import ConnectServer

JOB = """
import os, sys, time
from firesteel.adapters.spark.sinks.files import write_text
from pyspark.sql import functions as F

@F.udf("string")
def found(number, root):
    # Jobs that run at once wait for one another, so that both have their functions on one executor.
    import spelled
    open(os.path.join(root, spelled.WORD), "w").close()
    until = time.monotonic() + 300
    while len(os.listdir(root)) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    return f"{spelled.WORD} {spelled.escaped('<')} {len(os.listdir(root))} {os.path.basename(sys.prefix)}"

def words(spark, root):
    return spark.range(1).select(found("id", F.lit(root)).alias("word"))

def result(words, output):
    write_text(words, output)
"""


def job(jobs: JobMaker, tmp_path: Path, word: str, ending: str) -> JobInformation:
    pack = zipped if ending == ".zip" else tarred
    packed = Path(pack(environment(tmp_path / word, word), tmp_path / f"{word}{ending}"))
    functions = [
        function("words", wants_session=True, parameters=("root",)),
        function("result", "sink", ["words"], parameters=("output",)),
    ]
    parameters = {"root": str(tmp_path / "met"), "output": str(tmp_path / f"out-{word}")}
    return jobs.job(
        JOB,
        functions,
        parameters=parameters,
        archives={"env": packed},
        configuration={"python.executable": "env/bin/python"},
    )


async def run_both(backend: SparkTaskBackend, jobs: JobMaker, tmp_path: Path) -> list[str]:
    """Two jobs at once, with environments of one name; what their functions have found."""
    (tmp_path / "met").mkdir()
    both = [job(jobs, tmp_path, "one", ".tar.gz"), job(jobs, tmp_path, "two", ".zip")]
    outcomes = await asyncio.gather(*(run(backend, each) for each in both))
    assert [len(outcome.sinks) for outcome in outcomes] == [1, 1]
    files = [path for path in tmp_path.rglob("part-*") if not path.name.endswith(".crc")]
    return sorted(path.read_text().strip() for path in files if path.stat().st_size)


BOTH = ["one &lt; 2 env", "two &lt; 2 env"]


def test_jobs_at_once_have_their_own_environments_on_executors(
    backend: SparkTaskBackend, jobs: JobMaker, do: Runner, tmp_path: Path
) -> None:
    assert do(run_both(backend, jobs, tmp_path)) == BOTH


def test_jobs_at_once_have_them_on_a_server_of_others(
    blobs: LocalBlobStore, jobs: JobMaker, do: Runner, tmp_path: Path
) -> None:
    server = ConnectServer(tmp_path / "server")

    async def story() -> list[str]:
        backend = SparkTaskBackend(
            Configuration({**SMALL, "taskmanager.spark.master": server.url}), tmp_path / "work", blobs
        )
        await backend.start()
        try:
            return await run_both(backend, jobs, tmp_path)
        finally:
            await backend.close()

    try:
        assert do(story()) == BOTH
    finally:
        server.close()
