"""A job submitted once more: what of it is another's, and what is refused."""

import msgspec
import pytest

from firesteel.core.dispatcher.copies import job_again
from firesteel.core.dispatcher.jobentry import JobEntry, JobStage
from firesteel.model.branches import JobCopy, WireValue
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import InvalidJobGraph, JobGraph
from firesteel.model.refusals import UnknownJob
from firesteel.model.states import JobStatus
from tests.core.graphs import job

TYPES = {"output": "str", "least": "int", "share": "float", "all": "bool", "day": "date"}
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
        ("day", "2026-01-31", "2026-01-31"),
    ],
)
def test_texts_become_what_the_parameter_is(name: str, given: WireValue, value: WireValue) -> None:
    assert again(JobCopy(job_id=NEW, parameters={name: given})).parameters[name] == value


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("least", "five", "parameter 'least': 'five' is no int"),
        ("share", "nan", "is no float"),
        ("share", "half", "is no float"),
        ("all", "yes", "is no bool"),
        ("outptu", "/x", "unknown parameter 'outptu'"),
    ],
)
def test_what_does_not_fit_is_refused(name: str, given: str, words: str) -> None:
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
