"""What an attempt tells of its Spark tasks while it runs."""

from pathlib import Path

import pytest

from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from tests.integration.spark.jobs import JobMaker, Observed, Runner, function, run

pytestmark = pytest.mark.spark

TASKS = 40
SOURCE = f"""
from firesteel.adapters.spark.sinks.files import write_parquet
import time

def counts(spark, output):
    def nap(frame):
        time.sleep(3)
        return frame

    write_parquet(spark.range(0, {TASKS}, 1, {TASKS}).selectExpr("id", "id % 1 as one").groupBy("one").applyInPandas(nap, "id long, one long"), output)
"""
SINK = (function("counts", "sink", wants_session=True, parameters=("output",)),)


def test_tasks_of_a_stage_are_planned_once(
    backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path
) -> None:
    """Each job of an adaptive query names the stages again that have run before it."""
    observed = Observed()
    do(run(backend, jobs.job(SOURCE, SINK, parameters={"output": str(tmp_path / "out")}), observed=observed))
    told = [each for each in observed.progress if each.tasks_done >= TASKS]
    assert told, "of the second stage, which takes seconds"
    assert max(each.tasks_total for each in told) < 2 * TASKS
