"""What is wrong with a pipeline is said in one sentence that names function and line."""

from datetime import date, timedelta

import pytest

import firesteel as fs
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import InvalidJobGraph, JobGraph
from firesteel.pipeline.errors import InvalidPipeline
from firesteel.pipeline.graph import build_job_graph

JOB = JobID("0" * 32)


def build(pipeline: fs.Pipeline, **options) -> JobGraph:
    return build_job_graph(pipeline, job_id=JOB, **options)


def linear() -> fs.Pipeline:
    pipeline = fs.Pipeline("linear")

    @pipeline.source
    def lines(spark, path: str): ...

    @pipeline.sink
    def result(lines): ...

    return pipeline


def refused(pipeline: fs.Pipeline, **options) -> str:
    with pytest.raises(InvalidJobGraph) as caught:
        build(pipeline, **options)
    return str(caught.value)


def test_empty_pipeline() -> None:
    assert refused(fs.Pipeline("nothing")) == "pipeline 'nothing' is empty: declare a source and a sink"


def test_no_sink() -> None:
    pipeline = fs.Pipeline("p")
    pipeline.source(lambda_like("lines"))
    assert "no sink" in refused(pipeline)


def lambda_like(name: str):
    def function(spark): ...

    function.__name__ = name
    return function


def test_result_that_nobody_takes() -> None:
    pipeline = linear()
    pipeline.source(lambda_like("other"))
    assert refused(pipeline).startswith("other (")
    assert "no function takes its result" in refused(pipeline)


def test_cycle_is_named() -> None:
    pipeline = linear()

    @pipeline.transform
    def first(third): ...

    @pipeline.transform
    def second(first): ...

    @pipeline.transform
    def third(second, lines): ...

    assert "first -> second -> third -> first" in refused(pipeline, parameters={"path": "x"})


def test_function_that_names_itself() -> None:
    pipeline = linear()

    @pipeline.transform
    def again(again): ...

    assert "again -> again" in refused(pipeline)


def test_error_names_function_and_line() -> None:
    pipeline = linear()

    @pipeline.sink
    def other(linse: dict): ...

    with pytest.raises(InvalidPipeline) as caught:
        build(pipeline, parameters={"path": "x"})
    error = caught.value
    assert error.function == "other"
    assert error.location.endswith(f"test_checks.py:{other.__code__.co_firstlineno}")
    assert "did you mean 'lines'?" in str(error)


def test_missing_parameter_might_be_a_misspelt_function() -> None:
    pipeline = linear()

    @pipeline.sink
    def other(linse): ...

    assert "no argument names a function of this pipeline; did you mean 'lines'?" in refused(pipeline)
    pipeline = linear()
    pipeline.sink(sink_of("reslt"))
    assert "parameter 'reslt' (str) is missing" in refused(pipeline, parameters={"path": "x"})
    assert "did you mean the function 'result'?" in refused(pipeline, parameters={"path": "x"})


def sink_of(name: str):
    namespace: dict = {}
    exec(f"def writes_{name}(lines, {name}): ...", namespace)
    return namespace[f"writes_{name}"]


def test_missing_parameter() -> None:
    assert "parameter 'path' (str) is missing: give --param path=..." in refused(linear())
    assert build(linear(), require_parameters=False).parameters == {}


def test_unknown_parameter() -> None:
    assert "unknown parameter 'pth'; did you mean 'path'? (this pipeline takes path)" in refused(
        linear(), parameters={"path": "x", "pth": "y"}
    )
    assert "unknown parameters 'pth'; did you mean 'path'?, 'q' (this pipeline takes path)" in refused(
        linear(), parameters={"pth": "x", "q": "y"}
    )
    assert "'x9' and 2 more (this" in refused(linear(), parameters={f"x{n}": "y" for n in range(12)})


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (int, "7", 7),
        (float, "7", 7.0),
        (bool, "True", True),
        (date, "2026-01-31", "2026-01-31"),
        (str, " as it is ", " as it is "),
        (int | None, "7", 7),
        ("int | None", "7", 7),
    ],
)
def test_parameter_types(annotation, text: str, value) -> None:
    assert build(typed(annotation), parameters={"n": text}).parameters == {"n": value}


def typed(annotation, **defaults) -> fs.Pipeline:
    pipeline = fs.Pipeline("typed")

    def lines(spark, n): ...

    lines.__annotations__["n"] = annotation
    lines.__defaults__ = tuple(defaults.values()) or None
    pipeline.source(lines)

    @pipeline.sink
    def result(lines): ...

    return pipeline


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(int, "seven"), (int, True), (int, 2**63), (float, "nan"), (str, "\udc80"), (date, "soon")],
)
def test_mistyped_parameter(annotation, value) -> None:
    assert f"parameter 'n': {value!r} is not a " in refused(typed(annotation), parameters={"n": value})


def test_defaults_are_written_into_the_graph() -> None:
    assert build(typed(int, n=3)).parameters == {"n": 3}
    assert build(typed(int | None, n=None)).parameters == {}
    assert build(typed(int | None, n=None)).parameter_types == {"n": "int"}
    assert "default of parameter 'n'" in refused(typed(int, n=1.5))


def test_two_functions_disagree_on_a_parameter() -> None:
    pipeline = linear()

    @pipeline.sink
    def other(lines, path: int): ...

    assert "parameter 'path' is int here and str in 'lines'" in refused(pipeline)


def test_two_defaults_of_one_parameter() -> None:
    pipeline = fs.Pipeline("p")

    @pipeline.source
    def lines(n: int = 1): ...

    @pipeline.sink
    def result(lines, n: int = 2): ...

    assert "has the default 2 here and 1 in 'lines'" in refused(pipeline)


def test_duplicate_name_and_uid() -> None:
    pipeline = linear()
    pipeline.source(lambda_like("lines"))
    assert "another function has this name" in refused(pipeline)
    pipeline = linear()
    pipeline.sink(uid="lines")(sink_of("x"))
    assert "uid 'lines' is that of 'lines'" in refused(pipeline)


def test_reading_a_sink() -> None:
    pipeline = linear()

    @pipeline.sink
    def after(result): ...

    assert "is a sink, where a pipeline ends" in refused(pipeline)


def test_source_with_input_and_transform_without() -> None:
    pipeline = linear()

    @pipeline.source
    def more(lines): ...

    @pipeline.sink
    def end(more): ...

    assert "a source takes no input, but takes lines: make it a transform" in refused(pipeline)
    pipeline = linear()

    @pipeline.transform
    def alone(spark): ...

    assert "a transform needs an input" in refused(pipeline)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"parallelism": 0}, "parallelism=0: must be a whole number of at least 1"),
        ({"parallelism": True}, "parallelism=True"),
        ({"cpu": 1}, "only partially configured: beside cpu give memory"),
        ({"memory": "1g"}, "only partially configured: beside memory give cpu"),
        ({"memory": "lots", "cpu": 1}, "memory='lots'"),
        ({"cpu": "two", "memory": 1}, "cpu='two'"),
        ({"retries": 1, "max_attempts": 2}, "not both"),
        ({"retries": -1}, "retries=-1"),
        ({"max_attempts": 0}, "max_attempts=0"),
        ({"timeout": 0}, "timeout=0"),
        ({"timeout": "soon"}, "timeout='soon'"),
        ({"share": "split"}, "share='split': must be one of 'store', 'recompute', 'cache'"),
        ({"paralelism": 2}, "unknown option 'paralelism'; did you mean 'parallelism'?"),
        ({"uid": ""}, "uid=''"),
        ({"inputs": {"lins": fs.rebalance()}}, "inputs names 'lins', which is no argument; did you mean 'lines'?"),
        ({"inputs": {"lines": "hash"}}, "use hash_by(...), rebalance(), broadcast() or forward()"),
    ],
)
def test_option_is_refused_where_it_is_given(options: dict, text: str) -> None:
    with pytest.raises(InvalidJobGraph) as caught:
        fs.Pipeline("p").sink(**options)(sink_of("x"))
    assert text in str(caught.value)
    assert str(caught.value).startswith("writes_x (<string>:1): ")


def test_options_reach_the_vertex() -> None:
    pipeline = fs.Pipeline("p")
    pipeline.add(fs.noop("a", cpu=2, memory="2g", retries=2, timeout=timedelta(minutes=1), uid="stable"))
    vertex = build(pipeline).vertices[0]
    assert (vertex.resources.cpu_cores, vertex.resources.memory_mib) == (2.0, 2048)
    assert (vertex.max_attempts, vertex.timeout_ms) == (3, 60_000)


@pytest.mark.parametrize("wrong", [3, len, type("C", (), {})])
def test_only_functions_can_be_declared(wrong) -> None:
    with pytest.raises(InvalidJobGraph, match="must be a function"):
        fs.Pipeline("p").source(wrong)


def test_functions_that_can_not_be_called_by_name() -> None:
    pipeline = fs.Pipeline("p")
    with pytest.raises(InvalidJobGraph, match="use def instead of lambda"):
        pipeline.source(lambda spark: None)
    with pytest.raises(InvalidJobGraph, match="without"):
        pipeline.source(exec_function("def f(*args): ..."))
    with pytest.raises(InvalidJobGraph, match="not async"):
        pipeline.source(exec_function("async def f(): ..."))


def exec_function(text: str):
    namespace: dict = {}
    exec(text, namespace)
    return namespace["f"]


def test_a_source_without_splits_has_parallelism_one() -> None:
    pipeline = fs.Pipeline("p")
    pipeline.source(parallelism=2)(lambda_like("lines"))
    pipeline.sink(exec_function("def f(lines): ..."))
    assert "this source has no splits" in refused(pipeline)
    assert "splits=fs.file_splits(...)" in refused(pipeline)


def test_a_notebook_cell_that_runs_again_replaces_its_function() -> None:
    pipeline = fs.Pipeline("p")
    for body in ("spark", "spark, n: int"):
        pipeline.source(exec_function(f"def f({body}): ..."))
    assert [argument.name for argument in pipeline.definitions[0].arguments] == ["spark", "n"]
    assert len(pipeline.definitions) == 1


def test_decorated_functions_stay_plain() -> None:
    pipeline = fs.Pipeline("p")

    @pipeline.source
    def one() -> int:
        return 1

    @pipeline.transform(share="store")
    def two(one: int) -> int:
        return one + 1

    assert two(one()) == 2


def test_noop_and_user_functions_do_not_mix() -> None:
    pipeline = linear()
    pipeline.add(fs.noop("n", inputs=["lines"]))
    assert "noop vertices can be joined with noop vertices only" in refused(pipeline)
    pipeline = fs.Pipeline("p")
    pipeline.add(fs.noop("n", inputs={"m": fs.rebalance()}))
    assert "input 'm' is no vertex" in refused(pipeline)


def test_hash_by_needs_columns() -> None:
    for columns in ((), ("a", "a"), (1,)):
        with pytest.raises(InvalidJobGraph):
            fs.hash_by(*columns)
