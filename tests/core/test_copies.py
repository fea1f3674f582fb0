"""A job submitted once more: what of it is another's, and what is refused."""

from pathlib import Path

import msgspec
import pytest

from firesteel.adapters.spark.task.plan import convert_parameters
from firesteel.core.dispatcher.copies import job_again
from firesteel.core.dispatcher.jobentry import JobEntry, JobStage
from firesteel.model.branches import JobCopy, WireValue
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import InvalidJobGraph, JobGraph
from firesteel.model.refusals import UnknownJob
from firesteel.model.states import JobStatus
from tests.core.graphs import job

TYPES = {
    "output": "str",
    "least": "int",
    "share": "float",
    "all": "bool",
    "day": "date",
    "at": "datetime",
    "price": "Decimal",
    "file": "Path",
    "level": "Literal[1, 'two', True]",
    "mode": "Enum[FAST, SAFE]",
    "topics": "list[str]",
    "sizes": "list[int]",
    "days": "list[date]",
    "levels": "list[Literal['a', 2]]",
}
GRAPH = msgspec.structs.replace(
    job("a -> b", "job"),
    parameters={"output": "/branch", "least": 3},
    parameter_types=TYPES,
    configuration={"spark.x": "1", "job.queue": "q"},
    client_heartbeat_timeout_ms=5_000,
)
NEW = "f" * 32


def again(copy: JobCopy, stage: JobStage = JobStage.RUNNING) -> JobGraph:
    return job_again({GRAPH.job_id: JobEntry(GRAPH.job_id, GRAPH.name, GRAPH, stage)}, GRAPH.job_id, copy)


def test_what_is_given_replaces_what_the_job_has() -> None:
    made = again(JobCopy(job_id=NEW, parameters={"output": "/real"}, configuration={"spark.x": "2"}))
    assert made.job_id == NEW
    assert made.parameters == {"output": "/real", "least": 3}
    assert made.configuration == {"spark.x": "2", "job.queue": "q"}
    assert made.client_heartbeat_timeout_ms == 0
    assert made.vertices == GRAPH.vertices


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("least", "5", 5),
        ("least", 5, 5),
        ("share", "0.5", 0.5),
        ("all", "True", True),
        ("all", "false", False),
        ("output", " /a ", " /a "),
        ("output", "3", "3"),
        ("day", "2026-01-31", "2026-01-31"),
        ("day", " 2024-02-29 ", "2024-02-29"),
        ("at", "2026-01-31T12:00", "2026-01-31T12:00"),
        ("at", "2026-01-31 12:00:30.250000+01:00", "2026-01-31 12:00:30.250000+01:00"),
        ("at", "2026-01-31", "2026-01-31"),
        ("price", "12.50", "12.50"),
        ("file", "in/a.csv", "in/a.csv"),
        ("level", "1", 1),
        ("level", "two", "two"),
        ("level", "True", True),
        ("mode", "SAFE", "SAFE"),
        ("topics", "a, b", '["a", "b"]'),
        ("topics", '["a,b", " "]', '["a,b", " "]'),
        ("topics", "", "[]"),
        ("sizes", '["1", "2"]', "[1, 2]"),
        ("sizes", "[1, 2]", "[1, 2]"),
        ("sizes", "3,4", "[3, 4]"),
        ("days", "2026-01-31,2026-02-01", '["2026-01-31", "2026-02-01"]'),
        ("levels", "a,2", '["a", 2]'),
    ],
)
def test_texts_become_what_the_parameter_is(name: str, given: WireValue, value: WireValue) -> None:
    made = again(JobCopy(job_id=NEW, parameters={name: given})).parameters[name]
    assert made == value
    assert type(made) is type(value)
    convert_parameters(msgspec.structs.replace(GRAPH, parameters={name: made}), Path("/client"))


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("least", "five", "parameter 'least': 'five' is no int"),
        ("share", "nan", "is no float"),
        ("share", "half", "is no float"),
        ("all", "yes", "is no bool"),
        ("least", "9223372036854775808", "is no int"),
        ("least", 1.5, "1.5 is no int"),
        ("day", "2026-02-29", "'2026-02-29' is no date"),
        ("day", "0000-01-01", "is no date"),
        ("day", "31.1.2026", "is no date"),
        ("day", "2026-01-31T12:00", "is no date"),
        ("at", "2026-01-31T25:00", "is no datetime"),
        ("at", "noon", "is no datetime"),
        ("price", "1,5", "is no Decimal"),
        ("price", "NaN", "is no Decimal"),
        ("file", "s3://bucket/a", "is no Path"),
        ("file", "", "is no Path"),
        ("level", "3", "is no Literal"),
        ("mode", "SLOW", "is no Enum"),
        ("sizes", "1,x", "is no list"),
        ("sizes", "[1", "is no list"),
        ("sizes", "[[1]]", "is no list"),
        ("sizes", "[null]", "is no list"),
        ("days", "2026-01-32", "is no list"),
        ("outptu", "/x", "unknown parameter 'outptu'"),
    ],
)
def test_what_does_not_fit_is_refused(name: str, given: WireValue, words: str) -> None:
    with pytest.raises(InvalidJobGraph, match=words):
        again(JobCopy(job_id=NEW, parameters={name: given}))


def test_a_job_that_has_ended_or_is_not_known() -> None:
    """What did not finish is taken as long as its graph is kept."""
    entry = JobEntry(GRAPH.job_id, GRAPH.name, GRAPH, JobStage.DONE)
    for entry.status in (JobStatus.FAILED, JobStatus.CANCELED):
        assert job_again({GRAPH.job_id: entry}, GRAPH.job_id, JobCopy(job_id=NEW)).vertices == GRAPH.vertices
    entry.status = JobStatus.FINISHED
    with pytest.raises(
        InvalidJobGraph, match="has finished, and code is kept of jobs only that failed or were cancelled"
    ):
        job_again({GRAPH.job_id: entry}, GRAPH.job_id, JobCopy(job_id=NEW))
    with pytest.raises(UnknownJob):
        job_again({}, JobID("0" * 32), JobCopy(job_id=NEW))
    gone = JobEntry(GRAPH.job_id, GRAPH.name, None, JobStage.DONE, JobStatus.FAILED)
    with pytest.raises(InvalidJobGraph, match="is FAILED, and its code is not kept any more"):
        job_again({GRAPH.job_id: gone}, GRAPH.job_id, JobCopy(job_id=NEW))
