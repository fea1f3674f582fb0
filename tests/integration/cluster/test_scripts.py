"""Plain PySpark scripts, which know nothing of firesteel, as jobs of one vertex."""

import asyncio
import os
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from firesteel.minicluster import MiniCluster
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.model.views import JobResult
from firesteel.pipeline.attachments import Attachments
from firesteel.pipeline.build import BuiltJob
from tests.integration.cluster.conftest import Do
from tests.integration.cluster.files import Files

pytestmark = pytest.mark.spark

BUILDER = "from pyspark.sql import SparkSession, functions as F\nspark = SparkSession.builder.getOrCreate()\n"


class Done(NamedTuple):
    result: JobResult
    out: str
    err: str


class Scripts:
    """Runs scripts and collects what they print."""

    def __init__(self, files: Files) -> None:
        self._files, self.client = files, files.cluster.client

    def write(self, name: str, text: str) -> Path:
        path = self._files.scratch / "code" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    async def start(self, name: str, text: str, *arguments: str, **request: Any) -> JobID:
        return await self._files.submit(self.write(name, text), arguments=arguments, **request)

    async def built(self, name: str, text: str) -> BuiltJob:
        built = await self._files.build(self.write(name, text))
        assert isinstance(built, BuiltJob), built
        return built

    async def run(self, name: str, text: str, *arguments: str, **request: Any) -> Done:
        return await self.end(await self.start(name, text, *arguments, **request))

    async def end(self, job_id: JobID, attempt: int = 0) -> Done:
        result = await self.client.request_job_result(job_id)
        return Done(result, *[await self.printed(job_id, stream, attempt) for stream in ("stdout", "stderr")])

    async def printed(self, job_id: JobID, stream: str, attempt: int = 0) -> str:
        text = b""
        while data := await self.client.read_output(job_id, stream, attempt=attempt, offset=len(text)):
            text += data
        return text.decode()

    async def until(self, job_id: JobID, words: str) -> None:
        """The script has printed the words, and runs on."""
        async with asyncio.timeout(300):
            while words not in (await self.client.read_output(job_id, "stdout", wait_s=60)).decode():
                await asyncio.sleep(0.1)


@pytest.fixture
def scripts(files: Files) -> Scripts:
    return Scripts(files)


PROGRAM = """
import atexit, os, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from pyspark import SparkFiles
from pyspark.sql import SparkSession, functions as F
import beside, shout

@F.udf("string")
def loud(text):
    return shout.shout(beside.greet(text))

if __name__ == "__main__":
    builder = SparkSession.builder.master("local[7]").appName("mine").enableHiveSupport()
    spark = builder.config("spark.sql.shuffle.partitions", 3).config("spark.executor.memory", "9g").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    print("arguments", sys.argv)
    print("settings", spark.conf.get("spark.sql.shuffle.partitions"), spark.conf.get("spark.app.name"))
    print("file", open(SparkFiles.get("lookup.txt")).read())
    spark.conf.set("spark.sql.shuffle.partitions", 5)
    spark.sql("-- back\\nRESET")
    sessions = (spark, spark.newSession())
    print("settings", *(each.conf.get("spark.sql.shuffle.partitions") for each in sessions))
    spark.range(1).select(loud(F.lit("you")).alias("text")).show(truncate=False)
    spark.range(5).createOrReplaceTempView("five")
    pool = ThreadPoolExecutor(2)
    pool.submit(lambda: print("thread", SparkSession.builder.getOrCreate().table("five").count()))
    print("started in", os.getcwd())
    child = os.fork()
    if not child:
        print("the copy")
        sys.exit(7)
    print("copy ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    pool.shutdown()
    spark.stop()
    other = SparkSession.builder.config("spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs", False).getOrCreate()
    print("again", other is not spark, other.newSession().range(4).count(), other.catalog.tableExists("five"))
    other.range(2).write.parquet(sys.argv[1])
    print("success file", os.path.exists(sys.argv[1] + "/_SUCCESS"))
    try:
        input("name? ")
    except EOFError:
        print("nobody answers")
    atexit.register(print, "at the end")
    def last():
        time.sleep(0.5)
        later.submit(print, "last pool", other.range(6).count())
        print("last thread", other.range(7).count())
    later = ThreadPoolExecutor(1)
    threading.Thread(target=last).start()
"""


def test_a_script_runs_as_it_does_with_spark_submit(scripts: Scripts, do: Do, tmp_path: Path) -> None:
    scripts.write("beside.py", "def greet(name):\n    return 'hello ' + name\n")
    (tmp_path / "shout.py").write_text("def shout(text):\n    return text.upper()\n")
    (tmp_path / "lookup.txt").write_text("LOOKED UP")
    attachments = Attachments(py_files=(str(tmp_path / "shout.py"),), files=(str(tmp_path / "lookup.txt"),))
    output = str(tmp_path / "written")
    done = do(scripts.run("my-program.py", PROGRAM, output, "--x=1", "", "ä b", attachments=attachments))
    assert done.result.status is JobStatus.FINISHED, done
    assert done.result.name == "my-program"
    out = done.out
    assert f"arguments ['my-program.py', {output!r}, '--x=1', '', 'ä b']" in out
    assert "settings 3 mine" in out
    assert "settings 3 3" in out, "RESET, and another session, have what the builder was given"
    assert "file LOOKED UP" in out
    assert "|HELLO YOU|" in out
    assert "thread 5" in out
    assert f"started in {os.getcwd()}\n" in out
    assert out.count("the copy") == 1
    assert "copy ended with 7" in out
    assert "again True 4 False" in out
    assert "success file False" in out
    assert "name? nobody answers" in out
    assert "last pool 6\n" in out
    assert "last thread 7\n" in out
    assert out.endswith("at the end\n")
    assert "spark.master 'local[7]' in the code is ignored" in done.err
    assert "spark.executor.memory=9g in the code has no effect" in done.err
    assert "Hive support has no effect" in done.err
    assert "setLogLevel" not in done.err


RAISES = """import sys
def deeper():
    raise ValueError("boom")
try:
    {}["a"]
except KeyError:
    deeper()
"""
ENDINGS: dict[str, tuple[str, int, str, str]] = {
    # what it runs, its exit code, words of the failure, words on standard error
    "sys.exit": ("import sys\nsys.exit(3)", 3, "exit code 3", ""),
    "sys.exit text": ("import sys\nsys.exit('no input')", 1, "exit code 1", "no input"),
    "exception": (
        RAISES,
        1,
        "exception (exception.py:3): ValueError: boom",
        'File "exception.py", line 7, in <module>',
    ),
    "os._exit": ("import os\nos._exit(5)", 5, "status 5", ""),
    "signal": ("import os\nos.kill(os.getpid(), 9)", 137, "killed by SIGKILL", ""),
    "parallelize": (f"{BUILDER}spark.sparkContext.parallelize([1])", 1, "use spark.createDataFrame", ""),
    "rdd": (
        f"{BUILDER}\nspark.range(1).rdd",
        1,
        "rdd (rdd.py:4): rdd is not there: the session is one of Spark Conn",
        "",
    ),
    "context": ("from pyspark import SparkContext\nSparkContext.getOrCreate()", 1, "SparkContext is not there", ""),
    "jvm": (f"{BUILDER}spark._jvm.java", 1, "_jvm is not there", "Traceback"),
    "sql context": (f"{BUILDER}import pyspark\npyspark.SQLContext(spark.sparkContext)", 1, "run scripts that need", ""),
    "analysis": (f"{BUILDER}spark.range(1).select('nope').show()", 1, "analysis.py:3): [UNRESOLVED_COLUMN", ""),
    "pipeline": ("from others import pipeline", 2, "run pipeline.py:pipeline instead", ""),
}
GOOD_ENDINGS = {
    "nothing": "",
    "zero": "import sys\nsys.exit(0)",
    "os._exit 0": "import os\nos._exit(0)",
    "256": "raise SystemExit(256)",
    "replaces the class": "class SystemExit(Exception): ...\nprint('ok')",
}


def test_how_a_script_ends_is_how_its_job_does(scripts: Scripts, do: Do) -> None:
    """None is tried again: what a script does beside Spark would happen twice."""
    scripts.write("others.py", "import firesteel as fs\npipeline = fs.Pipeline('p')\n")

    async def run_all() -> tuple[dict[str, Done], dict[str, Done]]:
        bad = {name: await scripts.start(f"{name}.py", ending[0]) for name, ending in ENDINGS.items()}
        good = {name: await scripts.start(f"{name}.py", text) for name, text in GOOD_ENDINGS.items()}
        ends = [{name: await scripts.end(job_id) for name, job_id in each.items()} for each in (bad, good)]
        return ends[0], ends[1]

    bad, good = do(run_all())
    for name, (_, code, words, printed) in ENDINGS.items():
        failure = bad[name].result.failure
        assert failure is not None, (name, bad[name])
        assert (failure.exit_code, bad[name].result.restarts) == (code, 0), (name, failure)
        assert words in failure.headline(), (name, failure)
        assert printed in bad[name].err, (name, bad[name])
    assert {name: done.result.status for name, done in good.items()} == dict.fromkeys(good, JobStatus.FINISHED)
    trace = bad["exception"].err
    assert "firesteel/adapters" not in trace
    assert "During handling of the above exception" in trace
    assert trace.endswith("ValueError: boom\n")


LONG = (
    BUILDER
    + """
spark.stop()
spark = SparkSession.builder.getOrCreate()
print("x" * 5_000_000)
print("started", flush=True)
while True:
    spark.range(10**13).select(F.sum(F.rand())).collect()
"""
)


def test_a_script_is_seen_while_it_runs_and_can_be_cancelled(scripts: Scripts, cluster: MiniCluster, do: Do) -> None:
    async def cancel() -> Done:
        job_id = await scripts.start("long.py", LONG)
        async with asyncio.timeout(300):
            size = 0
            while size < 5_000_001 + len("started\n"):
                size += len(await scripts.client.read_output(job_id, "stdout", offset=size, wait_s=10))
        assert (await scripts.client.request_job(job_id)).status is JobStatus.RUNNING
        await scripts.client.cancel_job(job_id)
        return await scripts.end(job_id)

    done = do(cancel())
    assert done.result.status is JobStatus.CANCELED
    assert done.out.endswith("x\nstarted\n")
    assert (
        do(scripts.run("after.py", f"{BUILDER}print(spark.range(3).count())")).out == "3\n"
    )  # the backend is as it was


RELATIVE = (
    BUILDER
    + """
import os
spark.range(3).write.parquet("there/written")
spark.range(2).write.format("csv").option("path", "there/text").save()
print(spark.read.parquet("there/written").count(), spark.read.format("csv").load(["there/text"]).count())
print(sorted(os.listdir("there")), os.getcwd())
"""
)


def test_relative_paths_start_where_the_client_is(scripts: Scripts, do: Do, tmp_path: Path) -> None:
    async def run_from(directory: Path, text: str) -> Done:
        built = await scripts.built("relative.py", text)
        environment = msgspec.structs.replace(built.graph.environment, directory=str(directory))
        graph = msgspec.structs.replace(built.graph, environment=environment)
        return await scripts.end(await scripts.client.submit_job(graph, built.artifact_paths()))

    here = tmp_path / "a place"
    here.mkdir()
    assert do(run_from(here, RELATIVE)).out == f"3 2\n['text', 'written'] {here}\n"
    elsewhere = do(run_from(tmp_path / "not here", "print('runs')"))
    assert f"{tmp_path / 'not here'}, where this was submitted, can't be used by the worker" in elsewhere.err
    assert elsewhere.out == "runs\n"


TWICE = """
import os, sys
print("here")
if not os.path.exists(sys.argv[1]):
    open(sys.argv[1], "w").close()
    os.abort()
"""


def test_a_script_is_tried_again_when_it_was_asked_for(scripts: Scripts, do: Do, tmp_path: Path) -> None:
    again: dict[str, Any] = {
        "overrides": {"twice.max_attempts": "2"},
        "configuration": {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "10 ms"},
    }

    async def run() -> tuple[Done, Done, Done]:
        once = await scripts.run("once.py", TWICE, str(tmp_path / "once"))
        job_id = await scripts.start("twice.py", TWICE, str(tmp_path / "twice"), **again)
        return once, await scripts.end(job_id), await scripts.end(job_id, attempt=1)

    once, first, second = do(run())
    assert (once.result.status, once.result.restarts) == (JobStatus.FAILED, 0)
    assert once.result.failure is not None
    assert once.result.failure.exit_code == 128 + 6
    assert (first.result.status, first.result.restarts) == (JobStatus.FINISHED, 1)
    assert (first.out, second.out) == ("here\n", "here\n")


REPLACES = """from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.range(5).createOrReplaceTempView("seen")
made = spark.sql("select * from seen")
spark.range(3).createOrReplaceTempView("seen")
print(made.count(), made.count())
"""


def test_a_view_that_is_replaced_before_it_is_read_is_told(scripts: Scripts, do: Do) -> None:
    done = do(scripts.run("replaces.py", REPLACES))
    assert (done.result.status, done.out) == (JobStatus.FINISHED, "3 3\n")
    assert done.err.count("the view 'seen' was changed after a part of this query was made with it") == 1
