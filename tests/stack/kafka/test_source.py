"""Topics of a real Kafka read by a real Spark: each offset once, whoever dies and whatever is written meanwhile."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firesteel.model.failures import FailureInfo
from firesteel.model.states import JobStatus
from tests.integration.cluster.files import Files
from tests.integration.cluster.test_jobs import rows_of
from tests.stack.conftest import Do, until
from tests.stack.kafka.broker import Kafka

RECORDS, PARTITIONS = 60_000, 3
_DELAY = "restart-strategy.fixed-delay"
RESTARTS = {"restart-strategy.type": "fixed-delay", f"{_DELAY}.delay": "100 ms", f"{_DELAY}.attempts": "5"}

FILL = """
@pipeline.source
def numbers(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).selectExpr("cast(id as string) key", "concat('v', id) value", "cast(id % 3 as int) partition")

@pipeline.sink
def filled(numbers: DataFrame, topic: str, servers: str) -> None:
    fs.write_kafka(numbers, topic, servers)
"""

READ = """
import json, os, signal, time

def dies(scratch, name):
    try:
        os.close(os.open(os.path.join(scratch, name), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)

@pipeline.source(parallelism=PARALLELISM, splits=fs.kafka_splits(
    fs.param("topic"), fs.param("servers"), split_records=1_000,
    starting=fs.param("starting", "earliest"), ending=fs.param("ending", "latest")))
def records(spark: SparkSession, splits: fs.KafkaSplits, context, scratch: str) -> DataFrame:
    with open(os.path.join(scratch, f"draws-{context.subtask}-{context.attempt}"), "a+") as draws:
        draws.write(json.dumps(splits.ranges) + "\\n")
        draws.seek(0)
        count = len(draws.readlines())
    if count == (1 if PARALLELISM == 1 else 2):
        dies(scratch, "killed")
    while not os.path.exists(os.path.join(scratch, "go")):
        time.sleep(0.1)
    return splits.read(spark).selectExpr("partition", "offset", "cast(value as string) value")

@pipeline.sink
def result(records: DataFrame, output: str) -> None:
    fs.write_parquet(records, output)
"""


@pytest.fixture(scope="module")
def topic(broker: Kafka) -> str:
    broker.create("numbers", PARTITIONS)
    return "numbers"


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    made = tmp_path / "scratch"
    made.mkdir()
    (made / "go").touch()
    return made


@pytest.fixture
def writing(broker: Kafka, topic: str) -> Iterator[None]:
    """Somebody goes on writing."""
    ended = threading.Event()

    def write() -> None:
        while not ended.wait(0.05):
            broker.send(topic, 0, [("late", "late")])

    thread = threading.Thread(target=write)
    thread.start()
    yield
    ended.set()
    thread.join()


def given(broker: Kafka, topic: str, scratch: Path, **more: str) -> dict[str, str]:
    where = {"topic": topic, "servers": broker.servers, "scratch": str(scratch), "output": str(scratch.parent / "out")}
    return {**where, **more}


def drawn(scratch: Path, pattern: str = "draws-*") -> list[Any]:
    lines = [line for file in sorted(scratch.glob(pattern)) for line in file.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def test_every_record_is_read_once_though_a_task_process_dies_and_others_write(
    files: Files, broker: Kafka, topic: str, scratch: Path, writing: None
) -> None:
    filling = {"count": str(RECORDS), "topic": topic, "servers": broker.servers}
    assert files.do(files.run(files.write(FILL, "fill.py"), filling)).status is JobStatus.FINISHED
    path = files.write(READ.replace("PARALLELISM", "2"))
    done = files.do(files.run(path, given(broker, topic, scratch), RESTARTS))
    assert done.status is JobStatus.FINISHED, done.failure
    assert done.restarts == 1
    assert len(drawn(scratch)) > 4
    found = sorted((row["partition"], row["offset"]) for row in rows_of(scratch.parent / "out"))
    ends = {number: max(offset for each, offset in found if each == number) + 1 for number in range(PARTITIONS)}
    assert found == [(number, offset) for number in range(PARTITIONS) for offset in range(ends[number])]
    values = [row["value"] for row in rows_of(scratch.parent / "out") if row["value"] != "late"]
    assert sorted(values) == sorted(f"v{number}" for number in range(RECORDS))


def test_an_attempt_that_is_made_again_reads_the_same_offsets(
    files: Files, broker: Kafka, topic: str, scratch: Path, writing: None
) -> None:
    path = files.write(READ.replace("PARALLELISM", "1"))
    done = files.do(files.run(path, given(broker, topic, scratch), RESTARTS))
    assert done.status is JobStatus.FINISHED, done.failure
    first, second = drawn(scratch, "draws-0-0"), drawn(scratch, "draws-0-1")
    assert first == second
    assert len(first) == 1
    assert len(rows_of(scratch.parent / "out")) == sum(end - start for _, _, start, end in first[0])


def waiting_job(files: Files, broker: Kafka, topic: str, scratch: Path, do: Do) -> Any:
    """A job that has found its offsets, and reads them when `go` is there."""
    (scratch / "go").unlink()
    (scratch / "killed").touch()
    path = files.write(READ.replace("PARALLELISM", "1"))
    job = do(files.submit(path, given(broker, topic, scratch), RESTARTS))
    do(until(lambda: bool(drawn(scratch)), 300))
    assert drawn(scratch), "its offsets are not found"
    return job


def told(files: Files, job: Any, scratch: Path) -> tuple[FailureInfo, float]:
    begun = time.monotonic()
    (scratch / "go").touch()
    result = files.do(files.cluster.client.request_job_result(job))
    assert result.failure is not None
    assert "\n" not in result.failure.message
    assert not (scratch.parent / "out").exists()
    return result.failure, time.monotonic() - begun


def test_records_that_retention_removes_before_they_are_read_fail_the_job(
    files: Files, broker: Kafka, scratch: Path, do: Do
) -> None:
    broker.create("short", 1)
    broker.send("short", 0, [("k", str(n)) for n in range(20)])
    job = waiting_job(files, broker, "short", scratch, do)
    broker.remove_before("short", 0, 10)
    failure, seconds = told(files, job, scratch)
    assert "Kafka has removed records of short-0 with offsets 0 until 20" in failure.message
    assert seconds < 30


def test_a_topic_that_is_gone_meanwhile_fails_the_job(files: Files, broker: Kafka, scratch: Path, do: Do) -> None:
    broker.create("gone", 1)
    broker.send("gone", 0, [("k", str(n)) for n in range(20)])
    job = waiting_job(files, broker, "gone", scratch, do)
    broker.delete("gone")
    failure, seconds = told(files, job, scratch)
    assert "has gone" in failure.message
    assert seconds < 30
