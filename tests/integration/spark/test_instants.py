"""All attempts of a job see one present, given by its master, under Spark's own names and types."""

from pathlib import Path

import msgspec
import pytest

from firesteel.adapters.spark.exchange.partitions import StoredResults
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.model.tasks import JobInformation, TaskOutcome
from tests.integration.spark.inprocess import InProcess
from tests.integration.spark.jobs import JobMaker, Runner, deployment, function, run

pytestmark = pytest.mark.spark
INSTANT_MS = 1_583_020_799_123
"""2020-02-29 23:59:59.123 UTC."""
JOB = """
from pyspark.sql import functions as F

def moments(spark):
    spark.conf.set("spark.sql.session.timeZone", "Pacific/Kiritimati")
    frame = spark.range(1).select(F.current_timestamp(), F.date_add(F.current_date(), 1))
    text = spark.sql("SELECT now() AS n, CURRENT_DATE() AS d, curdate() AS c, localtimestamp() AS l")
    joined = frame.crossJoin(text).where(F.current_timestamp() == F.col("n"))
    assert joined.columns[:2] == ["current_timestamp()", "date_add(current_date(), 1)"], joined.columns
    assert not any(field.nullable for field in joined.schema), joined.schema
    joined.createOrReplaceTempView("seen")
    return spark.sql("SELECT *, now() AS again FROM seen")

def plain(spark):
    return spark.sql("SELECT current_timestamp() AS n")

def result(moments):
    pass
"""


@pytest.fixture(autouse=True, scope="module")
def started(backend: SparkTaskBackend, do: Runner) -> None:
    """Before a test begins, which must not leave behind what it has not started."""
    do(backend.endpoint())


def stored(local: InProcess, outcome: TaskOutcome, folder: Path) -> list[list[str]]:
    (partition,) = outcome.partitions
    frame = StoredResults().read(local.spark, [partition], range(1), folder / partition.location.replace("/", "-"))
    local.spark.conf.set("spark.sql.session.timeZone", "UTC")
    return [[str(value) for value in row.values()] for row in frame.toArrow().to_pylist()]


def job_of(jobs: JobMaker, instant_ms: int, name: str) -> JobInformation:
    functions = [function(name, wants_session=True), function("result", "sink", [name])]
    return msgspec.structs.replace(jobs.job(JOB, functions, blocking=[name]), instant_ms=instant_ms)


def test_every_attempt_has_the_instant_of_the_job(
    backend: SparkTaskBackend, jobs: JobMaker, do: Runner, local: InProcess, tmp_path: Path
) -> None:
    job = job_of(jobs, INSTANT_MS, "moments")
    outcomes = (do(run(backend, job, deployment(job, ["moments"], attempt=attempt))) for attempt in (0, 1))
    first, second = (stored(local, outcome, tmp_path) for outcome in outcomes)
    at, there = "2020-02-29 23:59:59.123000", "2020-03-01"
    assert first == second
    ((moment, next_day, now, date, current, here, again),) = first
    assert {moment[:26], now[:26], again[:26]} == {at}
    assert (next_day, date, current, here) == ("2020-03-02", there, there, "2020-03-01 13:59:59.123000")


def test_without_one_each_query_has_its_own(
    backend: SparkTaskBackend, jobs: JobMaker, do: Runner, local: InProcess, tmp_path: Path
) -> None:
    job = job_of(jobs, 0, "plain")
    ((moment,),) = stored(local, do(run(backend, job, deployment(job, ["plain"]))), tmp_path)
    assert moment > "2024", "of this day"
