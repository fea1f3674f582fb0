"""When Spark's planner is asked about shares, about what, and what a refusal says."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.adapters.spark.session.context import current_attempt
from firesteel.adapters.spark.shares.planner import Planner
from firesteel.adapters.spark.sinks.twophase import write_two_phase
from firesteel.model.jobgraph import Function, FunctionKind
from tests.integration.spark.inprocess import InProcess
from tests.integration.spark.shareinputs import BODY, Inputs, inputs_in
from tests.integration.spark.shareplans import F

pytestmark = pytest.mark.spark
EARLIER = Function(name="earlier", uid="earlier", kind=FunctionKind.TRANSFORM, inputs=("words",))


@pytest.fixture
def inputs(local: InProcess, scratch: Path) -> Iterator[Inputs]:
    with inputs_in(local, scratch) as given:
        yield given


def test_what_is_approved_is_asked_once(inputs: Inputs, monkeypatch: pytest.MonkeyPatch) -> None:
    """By all subtasks of a vertex, whose plans differ in the files they read and in the ids of their parts."""
    body = lambda i: i.hashed.join(i.twin, i.hashed.k == i.twin.k).groupBy(i.hashed.k).count()  # noqa: E731
    inputs.judge(body)
    other = Inputs(inputs.spark, inputs.scratch, inputs.approved)
    asked: list[Any] = []
    monkeypatch.setattr(
        "firesteel.adapters.spark.shares.planner.Planner.explained", lambda planner, *given: asked.append(given)
    )
    other.judge(body)
    assert not asked


def test_of_functions_that_follow_one_another_the_last_is_asked_about(
    inputs: Inputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    explained = Planner.explained

    def noted(planner: Planner, *given: Any, **more: Any) -> str:
        asked.append(given)
        return explained(planner, *given, **more)

    monkeypatch.setattr(Planner, "explained", noted)
    counts = inputs.call(lambda i: i.hashed.groupBy("k").count(), EARLIER)
    inputs.judge(lambda i: counts.where("count > 1"))
    assert len(asked) == 1


def test_a_refusal_names_the_first_function_that_it_is_for(inputs: Inputs) -> None:
    first = inputs.call(lambda i: i.spread.limit(1), EARLIER)
    with pytest.raises(PipelineRefused, match=r"^earlier .*limit"):
        inputs.judge(lambda i: first.groupBy("v").count())


@pytest.mark.parametrize("per_share", [True, False], ids=["a function with leave", "a decision"])
def test_what_nobody_sees_later_is_asked_about_before(inputs: Inputs, per_share: bool) -> None:
    """A function that may do anything with a share, or that asks how many rows there are, has to be given a share."""
    first = inputs.call(lambda i: i.spread.limit(1), EARLIER)
    function = Function(name="made", uid="made", kind=FunctionKind.TRANSFORM, per_share=per_share)
    with pytest.raises(PipelineRefused, match=r"^earlier .*limit"):
        inputs.call(lambda i: i.hashed.limit(2) if per_share or first.count() else i.hashed, function)


def test_a_refusal_that_the_function_catches_stands(inputs: Inputs) -> None:
    """It would go on without the answer, and return what the whole of the rows does not give."""

    def body(given: Inputs) -> Any:
        given.spread.createOrReplaceTempView("words")
        with pytest.raises(PipelineRefused, match="collecting rows"):
            given.spread.collect()
        return given.spread

    with pytest.raises(PipelineRefused, match="collecting rows"):
        inputs.judge(body)


@pytest.mark.parametrize("made", [lambda count: count, lambda count: count > 1, lambda count: count == count / 1.0])
def test_what_is_made_of_a_count_is_in_no_plan(inputs: Inputs, made: Callable[[Any], Any]) -> None:
    from pyspark.errors import PySparkTypeError
    from pyspark.sql import functions as F

    for use, refusal in (
        (
            lambda i, it: i.hashed.withColumn("n", F.col("v") + it),
            (PipelineRefused, "has counted this subtask's share"),
        ),
        (lambda i, it: i.hashed.where(F.lit(it)), (PySparkTypeError, "ShareCount")),
    ):
        with pytest.raises(refusal[0], match=refusal[1]):
            inputs.judge(lambda i: use(i, made(i.hashed.count())))  # noqa: B023 - called at once


def test_threads_of_a_function_may_ask_at_once(inputs: Inputs) -> None:
    earlier = [inputs.call(lambda i: i.hashed.groupBy("k").count(), EARLIER)]
    earlier.append(inputs.call(lambda i: earlier[0].where("count > 1"), BODY))

    def body(given: Inputs) -> Any:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda frame: frame.count(), earlier * 8))
        return earlier[1]

    inputs.judge(body)


def test_what_is_cached_as_a_view_is_refused(inputs: Inputs) -> None:
    inputs.judge(lambda i: (i.spread.createOrReplaceTempView("words"), i.spark.sql("cache table words"), i.spread)[2])
    for text in ("cache table t as select * from words", "cache lazy table t select * from words"):
        with pytest.raises(PipelineRefused, match="SQL text that is no query"):
            inputs.judge(lambda i: (i.spark.sql(text), i.spread)[1])  # noqa: B023 - called at once


def test_a_sink_of_the_users_own_may_write_anywhere_while_it_writes(inputs: Inputs, tmp_path: Path) -> None:
    class Sink:
        def write(self, df: Any, context: Any) -> str:
            df.write.parquet(str(tmp_path / "staged"))
            return "x"

        def commit(self, committables: Any) -> None: ...

        def abort(self, committables: Any) -> None: ...

    attempt: Any = SimpleNamespace(
        runtime=object(),
        function=BODY,
        vertex_id="v",
        sinks=[],
        deployment=SimpleNamespace(attempt=SimpleNamespace(job_id="a" * 32)),
        artifacts=(),
        python_executable="",
        allow_write=inputs.guard.staging,
        withdraw_write=inputs.guard.staged,
        report_staging=lambda reference: None,
        new_commit_id=lambda: "b" * 32,
    )

    def body() -> None:
        write_two_phase(inputs.spread, Sink())
        inputs.spread.write.parquet(str(tmp_path / "own"))

    with current_attempt.calling(attempt), pytest.raises(PipelineRefused, match="a write of its own"):
        inputs.guard.call(BODY, body)
    assert [path.name for path in tmp_path.iterdir() if path.name in ("staged", "own")] == ["staged"]


@pytest.mark.parametrize("how", ["text", "catalog"])
@pytest.mark.parametrize("per_share", [False, True])
def test_names_are_looked_for_where_a_function_says(inputs: Inputs, how: str, per_share: bool) -> None:
    """Also when the planner has been asked before."""
    goes = Function(name="goes", uid="goes", kind=FunctionKind.TRANSFORM, per_share=per_share)

    def there(given: Inputs) -> Any:
        given.small.collect()
        given.spark.sql("use mine") if how == "text" else given.spark.catalog.setCurrentDatabase("mine")
        return given.spread.select("k")

    inputs.spark.sql("create database mine")
    try:
        inputs.spark.sql("create table mine.only_there using parquet as select 1 as k")
        inputs.judge(lambda i: i.spread.select("v"))
        inputs.call(there, goes)
        inputs.judge(lambda i: i.spread.join(F().broadcast(i.spark.table("only_there")), "k"))
    finally:
        inputs.spark.catalog.setCurrentDatabase("default")
        inputs.spark.sql("drop database mine cascade")


@pytest.mark.parametrize(
    ("work", "operator", "by_columns"),
    [
        (lambda i: i.spread.groupBy("v").count(), "groupBy(v)", True),
        (lambda i: i.spread.join(i.spread.groupBy("v").count(), "v"), "v", True),
        (lambda i: i.spread.select("v").distinct(), "distinct(v)", True),
        (lambda i: i.spread.limit(1), "limit", False),
        (lambda i: i.spread.orderBy("v"), "orderBy", False),
        (lambda i: i.spread.groupBy().count(), "groupBy() of everything", False),
        (lambda i: i.spread.crossJoin(i.spread.withColumnRenamed("v", "w")), "join", False),
        (lambda i: i.spread.limit(1).collect() and i.spread, "collecting rows into Python", False),
    ],
)
def test_the_refusal_names_function_operator_and_ways_out(
    inputs: Inputs, work: Any, operator: str, by_columns: bool
) -> None:
    """To distribute by columns is advised where there are some to name."""
    with pytest.raises(PipelineRefused) as refused:
        inputs.judge(work)
    for part in ("counts has parallelism 4", operator, "parallelism=1", "per_share=True"):
        assert part in str(refused.value)
    advice = 'distribute by the columns it groups or joins by, with inputs={"words": fs.hash_by(...)}'
    assert (advice in str(refused.value)) is by_columns


def test_what_the_planner_can_not_be_asked_about_is_refused(inputs: Inputs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns that are clear to Spark in the user's plan may be ambiguous once its inputs are marked."""
    from pyspark.errors import AnalysisException

    def explained(*given: Any, **more: Any) -> str:
        raise AnalysisException("[AMBIGUOUS_COLUMN_REFERENCE] k", errorClass="AMBIGUOUS_COLUMN_REFERENCE")

    monkeypatch.setattr(Planner, "explained", explained)
    with pytest.raises(
        PipelineRefused, match=r"counts has .* can't be found out \(AMBIGUOUS_COLUMN_REFERENCE\): .*alias"
    ):
        inputs.judge(lambda i: i.hashed.groupBy("k").count())
    with pytest.raises(AnalysisException, match="nowhere"):  # what the user has got wrong is told as Spark tells it
        inputs.judge(lambda i: i.hashed.groupBy("nowhere").count())
