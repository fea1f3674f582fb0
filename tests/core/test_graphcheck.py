"""Job graphs that mean nothing are refused by name, before anything is built on them."""

from typing import Any

import msgspec
import pytest

from firesteel.core.dispatcher.graphcheck import check_job_graph
from firesteel.model.ids import DataSetID, JobVertexID
from firesteel.model.jobgraph import (
    Artifact,
    ExchangeMode,
    Function,
    FunctionKind,
    InvalidJobGraph,
    JobGraph,
    JobType,
    Partitioner,
)
from firesteel.model.options import Configuration
from firesteel.model.resources import ResourceProfile
from firesteel.model.splits import RangeInputFormat
from tests.core.graphs import job

GOOD = job("lines*2 => counts")
LINES, COUNTS = GOOD.vertices
(DATASET,) = GOOD.datasets
(EDGE,) = GOOD.edges


def changed(struct: Any, **fields: Any) -> Any:
    return msgspec.structs.replace(struct, **fields)


def with_artifacts(*names: str, kind: str = "file", sha256: str = "0" * 64, size_bytes: int = 0) -> JobGraph:
    made = (Artifact(name=name, kind=kind, sha256=sha256, size_bytes=size_bytes) for name in names)
    return msgspec.structs.replace(GOOD, artifacts=tuple(made))


def of_kind(kind: FunctionKind) -> Function:
    """The function of LINES, which has two subtasks."""
    return msgspec.structs.replace(LINES.functions[0], kind=kind)


READER = Function(name="lines", uid="lines", kind=FunctionKind.SOURCE)
WRITER = Function(name="result", uid="result", kind=FunctionKind.SINK, inputs=("lines",))


def stream(*functions: Function) -> JobGraph:
    """A streaming job of a vertex for each function, all of which read the first one."""
    graph = job("; ".join(f"{functions[0].name} -> {each.name}" for each in functions[1:]))
    vertices = tuple(
        changed(vertex, functions=(function,)) for vertex, function in zip(graph.vertices, functions, strict=True)
    )
    return msgspec.structs.replace(graph, vertices=vertices, job_type=JobType.STREAMING)


def with_interpreter(executable: str) -> JobGraph:
    graph = with_artifacts("a.tgz#env", kind="archive")
    return msgspec.structs.replace(graph, configuration={"python.executable": executable})


STREAM = stream(READER, WRITER)
SCRIPT = changed(LINES, parallelism=1, functions=(of_kind(FunctionKind.SCRIPT),))

BAD: dict[str, tuple[JobGraph, str]] = {
    "nothing": (changed(GOOD, vertices=(), datasets=(), edges=()), "no vertices"),
    "vertex twice": (changed(GOOD, vertices=(LINES, LINES)), "two vertex entries are called lines"),
    "function twice": (changed(GOOD, vertices=(LINES, changed(COUNTS, functions=LINES.functions))), "two function"),
    "no functions": (changed(GOOD, vertices=(LINES, changed(COUNTS, functions=()))), "counts has no functions"),
    "parallelism": (changed(GOOD, vertices=(changed(LINES, parallelism=0), COUNTS)), "parallelism 0"),
    "attempts": (changed(GOOD, vertices=(changed(LINES, max_attempts=0), COUNTS)), "tried 0 times"),
    "timeout": (changed(GOOD, vertices=(changed(LINES, timeout_ms=0), COUNTS)), "may run for 0 ms"),
    "less than nothing": (
        changed(GOOD, vertices=(changed(LINES, resources=ResourceProfile(-1.0, 1)), COUNTS)),
        "needs a slot of -1 cores",
    ),
    "cores without memory": (
        changed(GOOD, vertices=(changed(LINES, resources=ResourceProfile(1.0, 0)), COUNTS)),
        "vertex lines: resources are only partially configured: beside cpu give memory",
    ),
    "memory without cores": (
        changed(GOOD, vertices=(LINES, changed(COUNTS, resources=ResourceProfile(0.0, 512)))),
        "vertex counts: resources are only partially configured: beside memory give cpu",
    ),
    "label": (
        changed(GOOD, vertices=(LINES, changed(COUNTS, resources=ResourceProfile(labels=("a\nb",))))),
        "counts asks for label a\nb: no such label",
    ),
    "labels in no order": (
        changed(GOOD, vertices=(LINES, changed(COUNTS, resources=ResourceProfile(labels=("b", "a"))))),
        "counts asks for labels b, a: no such label",
    ),
    "stream of many": (changed(GOOD, job_type=JobType.STREAMING), "lines: parallelism=2: a function of a streaming"),
    "stream with splits": (
        stream(changed(READER, splits=RangeInputFormat(column="id", lower=0, upper=9, count=3)), WRITER),
        "has no splits",
    ),
    "stream with rows": (stream(READER, changed(WRITER, kind=FunctionKind.RESULT)), "returns no rows"),
    "stream of a script": (stream(changed(READER, kind=FunctionKind.NOOP), WRITER), "a noop is no part"),
    "stream with a cache": (stream(changed(READER, cached=True), WRITER), "share='cache' is for batch"),
    "stream with a path": (stream(READER, changed(WRITER, uid="../x")), "names directories"),
    "stream that stores": (
        changed(STREAM, edges=(changed(STREAM.edges[0], exchange=ExchangeMode.BLOCKING),)),
        "a streaming pipeline stores nothing",
    ),
    "stream without a sink": (stream(READER, changed(WRITER, kind=FunctionKind.TRANSFORM)), "would run nothing"),
    "stream of equal uids": (
        stream(READER, WRITER, changed(WRITER, name="again")),
        "two sink uid entries are called result",
    ),
    "source of many": (
        changed(GOOD, vertices=(changed(LINES, functions=(of_kind(FunctionKind.SOURCE),)), COUNTS)),
        "lines: parallelism=2: this source has no splits",
    ),
    "result of many": (
        changed(GOOD, vertices=(changed(LINES, functions=(of_kind(FunctionKind.RESULT),)), COUNTS)),
        "lines: parallelism=2: a result is one table",
    ),
    "vertices": (job("; ".join(f"v{index}" for index in range(2_001))), "2001 vertices, and 2000 are possible"),
    "long name": (changed(GOOD, name="x" * 1_001), "1001 characters"),
    "escape in a name": (changed(GOOD, name="\x1b[2Jgone"), r"'\\x1b\[2Jgone' has characters"),
    "escape in a vertex": (changed(GOOD, vertices=(changed(LINES, name="a\nb"), COUNTS)), r"'a\\nb' has characters"),
    "large number": (changed(GOOD, parameters={"seed": 1 << 64}), "needs more than 64 bits"),
    "data set twice": (changed(GOOD, datasets=(DATASET, DATASET)), "two data set entries"),
    "producer": (changed(GOOD, datasets=(changed(DATASET, producer=JobVertexID("x")),)), "unknown vertex x"),
    "source": (changed(GOOD, edges=(changed(EDGE, source=DataSetID("x")),)), "unknown data set x"),
    "target": (changed(GOOD, edges=(changed(EDGE, target=JobVertexID("x")),)), "unknown vertex x"),
    "itself": (changed(GOOD, edges=(changed(EDGE, target=LINES.id),)), "comes after it"),
    "order": (changed(GOOD, vertices=(COUNTS, LINES)), "comes after it"),
    "keys": (changed(GOOD, edges=(changed(EDGE, partitioner=Partitioner.HASH),)), "no keys"),
    "hash": (with_artifacts("a", kind="code", sha256="../x"), "no SHA-256"),
    "too large": (
        with_artifacts("a", size_bytes=(1 << 30) + 1),
        "artifact a has 1073741825 bytes, and blob.size.max of the cluster is 1024 MiB",
    ),
    "kind": (with_artifacts("a", kind="jar"), "unknown kind 'jar'"),
    "path": (with_artifacts("../a"), "no plain name"),
    "parent": (with_artifacts("a#.."), "no plain name"),
    "two targets": (with_artifacts("a#b#c"), "no plain name"),
    "no target": (with_artifacts("a#"), "no plain name"),
    "long": (with_artifacts("ä" * 101), "no plain name"),
    "unprintable": (with_artifacts("a\nb"), "no plain name"),
    "option's name": (with_artifacts("-rf"), "no plain name"),
    "interpreter": (with_interpreter("other/bin/python"), "no archive of the job is called other"),
    "interpreter elsewhere": (with_interpreter("env/../../bin/python"), "write NAME/bin/python"),
    "archive": (with_artifacts("a.rar", kind="archive"), "ends in none of .zip"),
    "one target twice": (with_artifacts("a#c", "b#c"), "two artifact entries are called c"),
    "script among others": (changed(GOOD, vertices=(SCRIPT, COUNTS)), "must be alone in its job"),
    "script of many": (changed(GOOD, vertices=(changed(SCRIPT, parallelism=2),), edges=()), "must be alone in its job"),
    "script without code": (changed(GOOD, vertices=(SCRIPT,), edges=()), "no artifact has the code of script lines"),
    "long time": (changed(GOOD, configuration={"job.timeout": "9" * 400}), "is not a duration"),
    "large priority": (changed(GOOD, configuration={"job.priority": "9" * 19}), "is not a whole number"),
    "option": (changed(GOOD, configuration={"heartbeat.intervall": "1"}), "heartbeat.interval"),
}


@pytest.mark.parametrize(("graph", "words"), BAD.values(), ids=BAD)
def test_what_means_nothing_is_refused(graph: JobGraph, words: str) -> None:
    with pytest.raises(InvalidJobGraph, match=words):
        check_job_graph(graph)


def test_a_savepoint_is_somebodys_or_nobodys() -> None:
    legacy = changed(GOOD, configuration={"execution.state-recovery.claim-mode": "legacy"})
    with pytest.raises(InvalidJobGraph, match="claim-mode: LEGACY is not there: in Flink"):
        check_job_graph(legacy)


def test_only_streams_start_from_savepoints() -> None:
    restored = changed(GOOD, configuration={"execution.state-recovery.path": "/savepoint"})
    with pytest.raises(InvalidJobGraph, match=r"no savepoint: leave execution\.state-recovery\.path out"):
        check_job_graph(restored)


def test_what_means_something_is_not() -> None:
    check_job_graph(GOOD)
    check_job_graph(STREAM)
    keyed = changed(EDGE, partitioner=Partitioner.HASH, keys=("word",))
    check_job_graph(with_artifacts("a.TGZ#env", "b.zip", kind="archive"))
    check_job_graph(with_interpreter("env/bin/python"))
    check_job_graph(with_artifacts("a", "a#b", ".c", "mit Leerzeichen.csv"))
    check_job_graph(with_artifacts("..", kind="code"))
    check_job_graph(with_artifacts("a", size_bytes=1 << 20), Configuration({"blob.size.max": "1m"}))
    spark = {"spark.sql.shuffle.partitions": "4"}
    check_job_graph(changed(GOOD, edges=(keyed,), configuration=spark, parameters={"seed": -(1 << 63)}))
    check_job_graph(job("; ".join(f"v{index}" for index in range(2_000))))
    whole = changed(LINES, parallelism=1, functions=(of_kind(FunctionKind.SOURCE),), resources=ResourceProfile(1.0, 1))
    check_job_graph(changed(GOOD, vertices=(whole, COUNTS)))


def test_a_note_of_a_branch_that_is_none_is_refused() -> None:
    noted = changed(GOOD, configuration={"execution.state-recovery.branch": '{"of": 3}'})
    with pytest.raises(InvalidJobGraph, match=r"execution\.state-recovery\.branch is no note of a branch"):
        check_job_graph(noted)
