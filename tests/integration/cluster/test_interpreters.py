"""Jobs with a Python of their own for Spark's Python workers: what functions and UDFs find there."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

import firesteel as fs
from firesteel.minicluster import MiniCluster
from firesteel.model.states import JobStatus
from firesteel.model.views import JobResult
from firesteel.pipeline.attachments import Attachments
from tests.environments import environment, tarred, zipped
from tests.integration.cluster.conftest import Do
from tests.integration.cluster.files import Files

pytestmark = pytest.mark.spark

BODY = """
import os, sys, time

def spelled_here(where, meets=""):
    import spelled
    own = os.path.dirname(os.path.dirname(spelled.__file__))
    return f"{where} {spelled.WORD} {spelled.escaped('<')} {own in sys.path} {sys.prefix}"

@F.udf("string")
def met(number, root):
    # Both jobs have begun to run their function before either goes on.
    import spelled
    open(os.path.join(root, spelled.WORD), "w").close()
    until = time.monotonic() + 300
    while len(os.listdir(root)) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    print(f"{spelled.WORD} met {len(os.listdir(root))}")
    return spelled_here("udf")

@pipeline.source
def here(spark: SparkSession, root: str) -> DataFrame:
    mine = spark.createDataFrame([(spelled_here("driver"),)], "text string")
    return mine.union(spark.range(1).select(met("id", F.lit(root))))

@pipeline.source
def batches(spark: SparkSession) -> DataFrame:
    def lengths(frames):
        import spelled
        for frame in frames:
            yield frame.head(1).assign(text=f"pandas {spelled.WORD} {len(frame)}")[["text"]]
    return spark.range(3).repartition(1).mapInPandas(lengths, "text string")

@pipeline.result
def out(here: DataFrame, batches: DataFrame) -> DataFrame:
    return here.union(batches)
"""


def packed(tmp_path: Path, word: str, ending: str) -> str:
    pack = zipped if ending == ".zip" else tarred
    return pack(environment(tmp_path / word, word), tmp_path / f"{word}{ending}")


async def run(files: Files, file: Path, parameters: dict[str, str], archive: str, **settings: str) -> JobResult:
    """A job with this archive as its environment, under the name `env`."""
    given = {"python.executable": "env/bin/python", **settings}
    return await files.run(file, parameters, given, attachments=Attachments(archives=(f"{archive}#env",)))


async def texts(cluster: MiniCluster, done: JobResult) -> list[str]:
    assert done.status is JobStatus.FINISHED, done.failure
    return sorted(row.text for row in fs.ResultRows(await cluster.client.fetch_result(done.job_id, "out")).rows())


def test_jobs_at_once_have_what_their_own_environments_have(
    files: Files, cluster: MiniCluster, do: Do, tmp_path: Path
) -> None:
    """On one worker and one JVM, with environments of one name; what their functions print is in the logs of their attempts."""
    path, root = files.write(BODY), tmp_path / "met"
    root.mkdir()

    async def told(word: str, ending: str) -> list[str]:
        return await texts(cluster, await run(files, path, {"root": str(root)}, packed(tmp_path, word, ending)))

    async def story() -> list[list[str]]:
        return list(await asyncio.gather(told("one", ".tar.gz"), told("two", ".zip")))

    for word, (driver, pandas, udf) in zip(("one", "two"), do(story()), strict=True):
        assert driver == f"driver {word} &lt; True {sys.prefix}", "the worker's Python, and what the environment has"
        assert pandas == f"pandas {word} 3"
        assert udf.startswith(f"udf {word} &lt; True "), udf
        assert udf.endswith("/env"), "the interpreter in the archive"


def test_nothing_of_an_environment_is_left_with_its_session(
    files: Files, cluster: MiniCluster, do: Do, tmp_path: Path, work_dir: Path
) -> None:
    """Spark would keep it for half an hour: each attempt sends one."""
    root = tmp_path / "met"
    root.mkdir()
    (root / "another").touch()
    archive = packed(tmp_path, "gone", ".tar.gz")
    *_, udf = do(texts(cluster, do(run(files, files.write(BODY), {"root": str(root)}, archive))))
    unpacked = Path(udf.split()[-1])
    assert unpacked.is_relative_to(work_dir), "where the function ran"

    async def until_gone() -> None:
        async with asyncio.timeout(60):
            while unpacked.exists():
                await asyncio.sleep(0.1)

    do(until_gone())


REFUSED = """
@pipeline.source
def here(spark: SparkSession, mark: str) -> DataFrame:
    open(mark, "w").close()
    return spark.range(1)

@pipeline.result
def out(here: DataFrame) -> DataFrame:
    return here
"""


def test_an_interpreter_that_does_not_do_fails_its_job_before_a_function_runs(
    files: Files, do: Do, tmp_path: Path
) -> None:
    directory = environment(tmp_path / "env", "one")
    (directory / "bin" / "python").unlink()
    (directory / "bin" / "python").symlink_to(tmp_path / "python3.99")
    archive = tarred(directory, tmp_path / "env.tar.gz")
    restarts = {"restart-strategy.type": "fixed-delay"}
    done = do(run(files, files.write(REFUSED), {"mark": str(tmp_path / "mark")}, archive, **restarts))
    assert done.status is JobStatus.FAILED
    assert done.failure is not None
    assert "it leads to" in done.failure.message
    assert "python3.99, which this worker does not have" in done.failure.message
    assert not (tmp_path / "mark").exists()


LEDGER = """
import json, os

class Ledger:
    def __init__(self, root):
        self.root = root

    def write(self, df, context):
        import spelled
        return {"word": spelled.WORD}

    def commit(self, committables):
        import spelled
        with open(f"{self.root}/ledger", "w") as file:
            json.dump([spelled.WORD, committables], file)

    def abort(self, committables):
        pass

@pipeline.source
def rows(spark: SparkSession) -> DataFrame:
    return spark.range(1)

@pipeline.sink
def result(rows: DataFrame, root: str) -> None:
    fs.write_two_phase(rows, Ledger(root))
"""


def test_a_users_own_sink_is_committed_with_what_its_environment_has(files: Files, do: Do, tmp_path: Path) -> None:
    archive = packed(tmp_path, "kept", ".tar.gz")
    done = do(run(files, files.write(LEDGER), {"root": str(tmp_path)}, archive))
    assert done.status is JobStatus.FINISHED, done.failure
    assert json.loads((tmp_path / "ledger").read_text()) == ["kept", [{"word": "kept"}]]
