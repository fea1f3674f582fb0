"""All 22 TPC-H queries as pipelines of several vertices: fused, and spread over shares with stored results between.

The reference are the same functions called by plain PySpark, on the same Spark.
"""

import contextlib
import json
from asyncio.subprocess import Process
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from benchmarks.tpch import QUERIES
from benchmarks.tpch.tables import make_tables, parameters_of
from benchmarks.warm import bare_client
from firesteel.minicluster import MiniCluster
from firesteel.model import options
from firesteel.model.states import JobStatus
from tests.integration.cluster.conftest import Do
from tests.integration.cluster.files import Files

pytestmark = pytest.mark.spark

SCALE = 0.03
SETTINGS = {"spark.sql.shuffle.partitions": "2"}

ORDERED_BY = {
    "q02": ["s_acctbal", "n_name", "s_name", "p_partkey"],
    "q03": ["revenue", "o_orderdate"],
    "q05": ["revenue"],
    "q10": ["revenue"],
    "q11": ["value"],
    "q18": ["o_totalprice", "o_orderdate"],
    "q20": ["s_name"],
}
"""What the query orders by, where rows may be equal in it; all columns for the others."""

FUSED, STORED, SPREAD = "fused", "stored", "spread"
"""In one query; with stored results, from each of which one subtask reads the shares of three; and with three subtasks."""
HOW = {FUSED: (1, {}), STORED: (3, {}), SPREAD: (3, {options.AUTO_PARALLELISM.key: "false"})}


class Reference:
    """What plain PySpark gives, from a process of its own with its session open; each query once."""

    def __init__(self, cluster: MiniCluster, do: Do, tables: Path, scratch: Path) -> None:
        self._do, self._tables, self._scratch = do, tables, scratch
        self._answers: dict[str, pa.Table] = {}
        settings = [f"{key}={value}" for key, value in SETTINGS.items()]
        self._open = contextlib.AsyncExitStack()
        self._process: Process = do(
            self._open.enter_async_context(bare_client(cluster, "benchmarks.tpch.bare", *settings))
        )

    def answer(self, name: str) -> pa.Table:
        if name not in self._answers:
            self._answers[name] = self._do(self._ask(name))
        return self._answers[name]

    async def _ask(self, name: str) -> pa.Table:
        output = self._scratch / name
        parameters = {**parameters_of(name, self._tables, SCALE), "output": str(output)}
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"file": str(QUERIES[name]), "parameters": parameters}).encode() + b"\n")
        assert float(await stdout.readline()) > 0, "the process has ended"
        return written(output)

    async def close(self) -> None:
        await self._open.aclose()


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tables(tmp_path_factory.mktemp("tpch"), SCALE)


@pytest.fixture(scope="module")
def reference(
    cluster: MiniCluster, do: Do, tables: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Reference]:
    reference = Reference(cluster, do, tables, tmp_path_factory.mktemp("reference"))
    yield reference
    do(reference.close())


def written(directory: Path) -> pa.Table:
    """The rows of a Parquet directory, in the order of its files."""
    return pa.concat_tables(pyarrow.parquet.read_table(path) for path in sorted(directory.glob("*.parquet")))


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("how", HOW)
def test_tpch(name: str, how: str, files: Files, tables: Path, reference: Reference, tmp_path: Path) -> None:
    parallelism, more = HOW[how]
    output = tmp_path / "answer"
    parameters = {**parameters_of(name, tables, SCALE), "output": str(output)}
    done = files.do(files.run(QUERIES[name], parameters, {**SETTINGS, **more}, parallelism=parallelism))
    assert done.status is JobStatus.FINISHED, done.failure and done.failure.message
    regions = files.do(files.cluster.client.request_job(done.job_id)).regions
    assert {FUSED: regions == 1, STORED: regions > 1, SPREAD: regions > 4}[how]
    compare(name, written(output), reference.answer(name))


def compare(name: str, found: pa.Table, expected: pa.Table) -> None:
    """The rows of a query with those of the reference, in the query's order."""
    assert found.schema.types == expected.schema.types
    assert found.schema.names == expected.schema.names
    found = found.cast(expected.schema)  # what was stored in between may be null by its schema
    keys = ORDERED_BY.get(name, found.column_names)
    assert found.select(keys).equals(expected.select(keys))
    everything = [(column, "ascending") for column in found.column_names]
    assert found.sort_by(everything).equals(expected.sort_by(everything))
    assert found.num_rows > 0, "an empty answer shows nothing"
