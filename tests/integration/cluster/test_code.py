"""The user's own modules and declarations: found wherever the user's code runs."""

import importlib
import sys
import uuid
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

import firesteel as fs
from firesteel.minicluster import MiniCluster
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.model.views import JobResult
from firesteel.pipeline.build import BuiltJob
from tests.integration.cluster.conftest import Do
from tests.integration.cluster.files import Files

pytestmark = pytest.mark.spark


def rows_of(files: Files, cluster: MiniCluster, do: Do, body: str) -> list[tuple[object, ...]]:
    """What the pipeline's function `out` returns."""
    done = do(files.run(files.write(body)))
    assert done.status is JobStatus.FINISHED, msgspec.to_builtins(done.failure)
    found = fs.ResultRows(do(cluster.client.fetch_result(done.job_id, "out"))).rows()
    return sorted(tuple(row) for row in found)


def helpers(files: Files) -> None:
    package = files.scratch / "code" / "my_helpers"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from my_helpers.deep import shout\n")
    (package / "deep.py").write_text("def shout(text): return text.upper() + '!'\n")


ANALYSED_FIRST = """
from pyspark.sql.types import StringType

def loud(text):
    from my_helpers.deep import shout
    return shout(text)

@pipeline.source
def words(spark: SparkSession) -> DataFrame:
    loudly = F.udf(loud, StringType())
    other = spark.newSession().newSession()
    seen = other.createDataFrame([("x",)], "w string").select(loudly("w"))
    assert len(seen.columns) == 1 and seen.collect() == [("X!",)]
    copied = spark.cloneSession().createDataFrame([("y",)], "w string").select(loudly("w"))
    assert copied.schema and copied.collect() == [("Y!",)]
    frame = spark.createDataFrame([("a",), ("b",)], "w string").select(loudly("w").alias("w"))
    assert frame.columns == ["w"]
    frame.printSchema()
    return frame

@pipeline.transform
def first(words: DataFrame) -> DataFrame:
    return words.where("w = 'A!'")

@pipeline.transform
def second(words: DataFrame) -> DataFrame:
    return words.where("w = 'B!'")

@pipeline.result
def out(first: DataFrame, second: DataFrame) -> DataFrame:
    return first.union(second)
"""


def test_functions_of_a_plan_that_was_analysed_before_it_ran_find_their_modules(
    files: Files, cluster: MiniCluster, do: Do
) -> None:
    """Spark keeps what it has analysed, with the modules that were there then. Sessions made of others have them too."""
    helpers(files)
    assert rows_of(files, cluster, do, ANALYSED_FIRST) == [("A!",), ("B!",)]


MADE_BY_A_FUNCTION = """
@F.udf("decimal(4, 1)")
def tenth(number):
    import decimal
    return decimal.Decimal(number) / 10

def make(number):
    def made(spark: SparkSession) -> DataFrame:
        return spark.range(1).select(tenth(F.lit(number)).alias("t"))
    made.__name__ = made.__qualname__ = f"made_{number}"
    return pipeline.source(made)

make(1), make(2)

@pipeline.result
def out(made_1: DataFrame, made_2: DataFrame) -> DataFrame:
    return made_1.union(made_2)
"""


def test_types_given_as_text_are_spark_s_also_in_functions_that_travel_pickled(
    files: Files, cluster: MiniCluster, do: Do
) -> None:
    assert rows_of(files, cluster, do, MADE_BY_A_FUNCTION) == [(Decimal("0.1"),), (Decimal("0.2"),)]


READ = """
def read(spark, path):
    return spark.read.csv(path, header=True)

@pipeline.source
def chosen(spark: SparkSession) -> DataFrame:
    return CHOSEN

@pipeline.result
def out(chosen: DataFrame) -> DataFrame:
    chosen.write.mode("overwrite").parquet("written beside")
    return chosen
"""
ALL_WAYS = """(
        read(spark, "data.csv")
        .union(spark.read.format("csv").option("path", "data.csv").option("header", "true").load())
        .union(spark.read.text(["lines.txt"]))
        .union(spark.sql("SELECT value FROM text.`lines.txt`"))
        .union(spark.read.load("l*.txt", format="text"))
        .union(spark.read.format("libsvm").option("numFeatures", "1").load("sample.libsvm").selectExpr("string(label)"))
    )"""


def test_relative_paths_start_where_the_job_was_submitted(
    files: Files, cluster: MiniCluster, do: Do, tmp_path: Path
) -> None:
    client = tmp_path / "the client's"
    client.mkdir()
    (client / "data.csv").write_text("a\n1\n")
    (client / "lines.txt").write_text("line\n")
    (client / "sample.libsvm").write_text("7 1:0.5\n")

    def end(chosen: str) -> JobResult:
        async def run() -> JobResult:
            built = await files.build(files.write(READ.replace("CHOSEN", chosen)))
            assert isinstance(built, BuiltJob), built
            environment = msgspec.structs.replace(built.graph.environment, directory=str(client))
            graph = msgspec.structs.replace(built.graph, environment=environment)
            job_id = await cluster.client.submit_job(graph, built.artifact_paths())
            return await cluster.client.request_job_result(job_id)

        done: JobResult = do(run())
        return done

    done = end(ALL_WAYS)
    assert done.status is JobStatus.FINISHED, msgspec.to_builtins(done.failure)
    rows = fs.ResultRows(do(cluster.client.fetch_result(done.job_id, "out"))).rows()
    assert sorted(row.a for row in rows) == ["1", "1", "7.0", "line", "line", "line"]
    assert (client / "written beside" / "_SUCCESS").exists()
    assert done.reads == tuple(str(client / name) for name in ("data.csv", "lines.txt", "l*.txt", "sample.libsvm"))
    assert done.read_columns == {str(client / name): (("value", "string"),) for name in ("lines.txt", "l*.txt")}
    failure = end('read(spark, "dota.csv")').failure
    assert failure is not None
    assert (failure.vertex, failure.location) == ("chosen", "job.py:7"), failure
    assert "'dota.csv'" in failure.message
    assert f"in {client})" in failure.message


IN_SPARK_S_WORKERS = """
import texts

@pipeline.source
def words(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(" a ",)], "w string").select(F.udf(lambda w: texts.stripped(w), "string")("w"))

@pipeline.result
def out(words: DataFrame) -> DataFrame:
    print("in the function")
    return words
"""


def test_modules_with_declarations_are_found_in_spark_s_workers_and_what_they_print_is_the_attempt_s(
    files: Files, cluster: MiniCluster, do: Do
) -> None:
    (files.scratch / "code").mkdir()
    (files.scratch / "code" / "texts.py").write_text(
        "from pyspark.sql import functions as F\n@F.udf('string')\ndef unused(text): ...\n"
        "def stripped(text):\n    print('stripping', text)\n    return text.strip()\n"
    )
    done = do(files.run(files.write(IN_SPARK_S_WORKERS)))
    assert done.status is JobStatus.FINISHED, msgspec.to_builtins(done.failure)
    (log,) = cluster.work_dir.glob(f"*/logs/{done.job_id}/*.log")
    assert set(log.read_text().splitlines()) == {"in the function", "stripping  a "}


PROGRAM = """
from program_helpers.deep import shout

@pipeline.source
def words(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("a",), ("b",)], "w string")

@pipeline.result
def out(words: DataFrame) -> DataFrame:
    def later(text):
        from program_later import late
        return late(text)

    return words.select(F.udf(later)(F.udf(shout)("w")))
"""


def test_a_pipeline_of_a_program_brings_the_modules_that_it_imports(
    files: Files, cluster: MiniCluster, do: Do, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside it or anywhere on the program's path; in its functions, in UDFs, and where these are called."""
    program = files.write(PROGRAM, "program.py")
    (program.parent / "program_helpers").mkdir()
    (program.parent / "program_helpers" / "deep.py").write_text("def shout(text): return text.upper() + '!'\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "program_later.py").write_text("def late(text): return text + '?'\n")
    with monkeypatch.context() as patched:
        patched.setattr(sys, "path", [str(program.parent), str(elsewhere), *sys.path])
        loaded = importlib.import_module("program")
        job_id = JobID(uuid.uuid4().hex)
        built = fs.build_job(loaded.pipeline, job_id=job_id, output_dir=tmp_path)
    for name in [name for name in sys.modules if name.startswith("program")]:
        del sys.modules[name]
    do(cluster.client.submit_job(built.graph, built.artifact_paths()))
    done = do(cluster.client.request_job_result(job_id))
    assert done.status is JobStatus.FINISHED, msgspec.to_builtins(done.failure)
    found = fs.ResultRows(do(cluster.client.fetch_result(job_id, "out"))).rows()
    assert sorted(tuple(row) for row in found) == [("A!?",), ("B!?",)]
