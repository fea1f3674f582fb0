"""What an attempt asks of Spark: plans that nothing of ours makes slower, and no call that can be done without."""

import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import firesteel as fs
from firesteel.adapters.spark import calls, wire
from firesteel.adapters.spark.jvm import warmup
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from tests.integration.spark.inprocess import InProcess

pytestmark = pytest.mark.spark
PUSHED = ("PushedFilters", "ReadSchema")


@pytest.fixture
def numbers(local: InProcess, tmp_path: Path) -> str:
    """A Parquet table with more columns than anybody needs."""
    path = str(tmp_path / "numbers")
    local.spark.sql("select id as n, id * 2 as twice, cast(id as string) as text from range(100)").write.parquet(path)
    return path


def test_a_round_of_the_warm_up(backend: SparkTaskBackend, do: Callable[[Any], Any], tmp_path: Path) -> None:
    async def run() -> bytes:
        session = wire.SessionName("firesteel", str(uuid.uuid4()))
        order = calls.WarmUp(await backend.endpoint(), session, str(tmp_path))
        return await backend.call(warmup.ENTRY_POINT, msgspec.json.encode(order))

    assert do(run()) == b""
    assert list(tmp_path.iterdir()) == []


class Calls:
    """Counts the calls of a session, and keeps what it has Spark run. Stands in front of the client's gRPC stub."""

    def __init__(self, client: Any) -> None:
        self.counts: Counter[str] = Counter()
        self.executed: list[Any] = []
        self._client, self._stub = client, client._stub

    def __enter__(self) -> "Calls":
        self._client._stub = self
        return self

    def __exit__(self, *_: object) -> None:
        self._client._stub = self._stub

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._stub, name)

        def counted(request: Any, **more: Any) -> Any:
            self.counts[name] += 1
            if name == "ExecutePlan":
                self.executed.append(request.plan)
            return call(request, **more)

        return counted

    @property
    def asked(self) -> dict[str, int]:
        """Plans run and plans analyzed. Config is asked for once a session; ReleaseExecute nobody waits for."""
        return {name: count for name, count in self.counts.items() if name in ("AnalyzePlan", "ExecutePlan")}


def physical_plan(local: InProcess, written: Any) -> str:
    """Of the query whose rows that command writes: exactly the one that ran."""
    from pyspark.sql.connect.proto import Plan

    query = Plan(root=written.command.write_operation.input)
    return str(local.spark.client._analyze(method="explain", plan=query, explain_mode="formatted").explain_string)


def operators(plan: str) -> dict[str, list[str]]:
    """By name, what the plan pushes into the operator: the lines of a formatted plan's description of each node."""
    nodes = [block.strip().splitlines() for block in plan.split("\n\n") if block.strip().startswith("(")]
    return {
        node[0].split(") ")[1].split(" [")[0].strip(): [line for line in node if line.startswith(PUSHED)]
        for node in nodes
    }


def test_filters_and_columns_are_pushed_through_a_fused_region(local: InProcess, numbers: str, tmp_path: Path) -> None:
    pipeline = fs.Pipeline("fused")

    @pipeline.source
    def table(spark: Any) -> Any:
        return spark.read.schema("n bigint, twice bigint, text string").parquet(numbers)

    @pipeline.transform
    def few(table: Any) -> Any:
        return table.where("n > 90").select("n")

    @pipeline.sink
    def result(few: Any) -> None:
        fs.write_parquet(few, str(tmp_path / "out"))

    with Calls(local.spark.client) as calls:
        (commit,) = local.run(pipeline)
    assert commit.rows == 9
    (written,) = calls.executed
    assert operators(physical_plan(local, written)) == {
        "Scan parquet": ["PushedFilters: [IsNotNull(n), GreaterThan(n,90)]", "ReadSchema: struct<n:bigint>"],
        "ColumnarToRow": [],
        "Filter": [],
    }
    assert calls.asked == {"ExecutePlan": 1}


def test_filters_and_columns_are_offered_to_what_reads_a_stored_result(
    local: InProcess, numbers: str, tmp_path: Path
) -> None:
    pipeline = fs.Pipeline("stored")

    @pipeline.source(share="store")
    def table(spark: Any) -> Any:
        return spark.read.schema("n bigint, twice bigint, text string").parquet(numbers)

    @pipeline.transform(parallelism=2, inputs={"table": fs.hash_by("n")})
    def few(table: Any) -> Any:
        return table.where("n > 90").select("text")

    @pipeline.sink(parallelism=2, inputs={"few": fs.forward()})
    def result(few: Any) -> None:
        fs.write_parquet(few, str(tmp_path / "out"))

    with Calls(local.spark.client) as calls:
        assert sum(commit.rows for commit in local.run(pipeline)) == 9
    stored, *written = calls.executed
    assert operators(physical_plan(local, stored)) == {
        "Scan parquet": ["ReadSchema: struct<n:bigint,twice:bigint,text:string>"],
        "ColumnarToRow": [],
        "Project": [],
    }
    assert len(written) == 2
    for each in written:
        assert operators(physical_plan(local, each)) == {
            "Scan storedrows": [
                "PushedFilters: [IsNotNull(c0), GreaterThan(c0,90)]",
                "ReadSchema: struct<c0:bigint,c2:string>",
            ],
            "Filter": [],
            "Project": [],
            "Coalesce": [],
        }
    assert calls.asked == {"AnalyzePlan": 1, "ExecutePlan": 3}
