"""File sinks on HDFS, with the Hadoop client among PySpark's jars: all modes, read back by Spark and by another reader."""

import io
from collections.abc import Iterator
from typing import Any

import pyarrow.parquet
import pytest

from firesteel.adapters.storage.hdfssinks import HdfsSinks
from firesteel.model.states import JobStatus
from tests.integration.cluster.files import Files
from tests.stack.conftest import Do, until
from tests.stack.hadoop import Hdfs
from tests.stack.test_s3_sinks import FORMATS, PIPELINE, READ_BACK, run


@pytest.fixture(autouse=True)
def clean(storage: Hdfs, do: Do) -> Iterator[None]:
    yield
    do(until(lambda: not staged(storage)))  # a failed attempt is cleared up after its job has ended
    assert staged(storage) == []
    storage.client().delete("/warehouse", recursive=True)


def staged(storage: Hdfs) -> list[str]:
    found = storage.client().status("/warehouse")
    below = storage.client().listed("/warehouse") if found else []
    return [each.name for each in below if each.name.startswith(".firesteel")]


def ids(storage: Hdfs, path: str) -> list[int]:
    """What another reader sees: of all Parquet files below."""
    store, target = HdfsSinks(storage.client()), storage.uri(path)
    names = store.files(target) if storage.client().status(path) is not None else ()
    tables = (pyarrow.parquet.read_table(io.BytesIO(store.read(target, name))) for name in names)
    return sorted(number for table in tables for number in table.column("id").to_pylist())


def test_rows_are_there_once_in_every_mode(files: Files, storage: Hdfs) -> None:
    out: dict[str, Any] = {"output": storage.uri("/warehouse/orders")}
    result = run(files, **out, mode="error")
    assert ids(storage, "/warehouse/orders") == list(range(20))
    (sink,) = result.sinks
    assert (sink.target, sink.rows) == (out["output"], 20)
    run(files, **out, mode="append", begin=20, end=30)
    assert ids(storage, "/warehouse/orders") == list(range(30))
    run(files, **out, mode="ignore")
    assert ids(storage, "/warehouse/orders") == list(range(30))
    run(files, **out, mode="overwrite", begin=5, end=7)
    assert ids(storage, "/warehouse/orders") == [5, 6]
    assert len(storage.client().listed("/warehouse/orders/_firesteel/commits")) == 1
    again = files.do(files.run(files.write(PIPELINE), {**out, "mode": "error"}))
    assert again.failure is not None
    assert f"{out['output']} exists and holds data" in again.failure.message
    run(files, **out, mode="overwrite", begin=0, end=0)
    assert ids(storage, "/warehouse/orders") == []


def test_only_the_partitions_that_were_written_are_replaced(files: Files, storage: Hdfs) -> None:
    out = {"output": storage.uri("/warehouse/parts"), "mode": "overwrite", "partitions": "dynamic"}
    run(files, **out)
    names = [each.name for each in storage.client().listed("/warehouse/parts") if each.is_directory]
    assert names == ["_firesteel", *(f"k=a%2F{number}" for number in range(4))]
    run(files, **out, begin=100, end=102)
    assert ids(storage, "/warehouse/parts") == sorted([*(each for each in range(20) if each % 4 > 1), 100, 101])


def test_all_formats_by_several_subtasks_are_read_back_by_spark(files: Files, storage: Hdfs) -> None:
    output = {"output": storage.uri("/warehouse/formats")}
    result = files.do(files.run(files.write(FORMATS), output))
    assert result.status is JobStatus.FINISHED, result.failure
    assert len(result.sinks) == 4
    back = files.do(files.run(files.write(READ_BACK, "back.py"), output))
    assert back.status is JobStatus.FINISHED, back.failure
    storage.client().delete("/warehouse/formats", recursive=True)
