"""A job whose rows are made by a module of its own on executors, slowly, and counted after a shuffle."""

import asyncio
from pathlib import Path

from firesteel.model.tasks import JobInformation, TaskOutcome
from tests.integration.spark.jobs import JobMaker, function

JOB = """
from firesteel.adapters.spark.sinks.files import write_parquet
import naps
from pyspark.sql import functions as F

def numbers(spark, tasks, seconds, mark):
    nap = F.udf(naps.nap, "long")
    return spark.range(0, tasks, 1, tasks).select(nap("id", F.lit(seconds), F.lit(mark)).alias("id"))

def counts(numbers):
    return numbers.groupBy((F.col("id") % 4).alias("rest")).count()

def result(counts, output):
    write_parquet(counts, output)
"""
NAPS = """
import pathlib, socket, time

def nap(number, seconds, mark):
    with open(mark, "a") as file:
        file.write(f"{number} {time.time()}\\n")
    time.sleep(seconds)
    return number
"""


def counting_job(jobs: JobMaker, folder: Path, *, tasks: int = 8, seconds: float = 0.1) -> JobInformation:
    parameters = {"tasks": tasks, "seconds": seconds, "mark": str(folder / "mark"), "output": str(folder / "out")}
    functions = [
        function("numbers", wants_session=True, parameters=("tasks", "seconds", "mark")),
        function("counts", "transform", ["numbers"]),
        function("result", "sink", ["counts"], parameters=("output",)),
    ]
    return jobs.job(JOB, functions, parameters=parameters, more_files={"naps.py": NAPS})


def rows_staged(outcome: TaskOutcome) -> int:
    (commit,) = outcome.sinks
    return commit.rows


async def begun(folder: Path, limit_s: float = 400.0) -> None:
    """Wait until a task of the job runs."""
    async with asyncio.timeout(limit_s):
        while not (folder / "mark").exists():
            await asyncio.sleep(0.05)
