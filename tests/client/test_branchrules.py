"""What can be branched and promoted, with which parameters, and which way leads back."""

import msgspec
import pytest

from firesteel.client import branchrules as rules
from firesteel.model.branches import Branch
from firesteel.model.checkpoints import (
    Checkpoint,
    CheckpointHistory,
    CheckpointSettings,
    CheckpointStatus,
    CheckpointsView,
)
from firesteel.model.ids import JobID, JobVertexID, RegionAttemptID, RegionIndex
from firesteel.model.jobgraph import Function, FunctionKind, JobGraph, JobType, JobVertex, RuntimeEnvironment
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.streams import QueryPosition, QueryProgress, QuerySight, StreamOutput, savepoint_name
from firesteel.model.tasks import TaskProgress
from firesteel.model.views import JobView, VertexView

PARENT, MARK = JobID("a" * 32), "12345678"


def vertex(**batches: int) -> VertexView:
    attempt = RegionAttemptID(job_id=PARENT, region=RegionIndex(0), attempt=0)
    queries = tuple(QueryProgress(uid=uid, batch_id=batch) for uid, batch in batches.items())
    return VertexView(
        id=JobVertexID("v"),
        name="v",
        functions=("lines", *batches),
        kinds=("source", *("sink" for _ in batches)),
        parallelism=1,
        status=ExecutionState.RUNNING,
        tasks={},
        attempts=1,
        progress=(TaskProgress(attempt=attempt, queries=queries),),
    )


STREAM = JobView(
    job_id=PARENT, name="clicks", status=JobStatus.RUNNING, job_type=JobType.STREAMING, vertices=(vertex(result=4),)
)


def changed(**fields: object) -> JobView:
    return msgspec.structs.replace(STREAM, **fields)


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (STREAM, ""),
        (changed(job_type=JobType.BATCH), "is a batch job: streams can be branched"),
        (changed(status=JobStatus.FINISHED), "has ended, it is FINISHED: start from its savepoint"),
        (changed(vertices=(vertex(result=-1),)), "has committed a batch"),
        (changed(vertices=()), "has committed a batch"),
    ],
)
def test_what_can_be_branched(view: JobView, words: str) -> None:
    problem = rules.why_not_branched(view)
    assert words in problem if words else not problem


def test_secrets_are_not_inherited_nor_what_is_about_the_start() -> None:
    view = changed(
        configuration={
            "spark.x": "1",
            "spark.password": "******",
            "execution.state-recovery.path": "/old",
            "execution.state-recovery.claim-mode": "CLAIM",
        },
        parameters={"output": "/real", "url": "jdbc:x?password=******"},
    )
    assert rules.inherited_options(view) == ({"spark.x": "1"}, ["spark.password"])
    assert rules.inherited(view.parameters) == ({"output": "/real"}, ["url"])


def graph(**parameters: str | int) -> JobGraph:
    functions = (
        Function(name="lines", uid="lines", kind=FunctionKind.SOURCE, parameters=("input", "least")),
        Function(name="result", uid="result", kind=FunctionKind.SINK, parameters=("output", "form")),
        Function(name="shown", uid="shown", kind=FunctionKind.SINK, parameters=("least",)),
    )
    return JobGraph(
        job_id=JobID("b" * 32),
        name="clicks",
        vertices=(JobVertex(id=JobVertexID("v"), name="v", functions=functions),),
        environment=RuntimeEnvironment(python="3.11", pyspark=""),
        parameters=dict(parameters),
    )


def test_parameters_of_sinks_go_back_and_others_stay() -> None:
    output = StreamOutput(kind="stream_files", place="/real")
    made = graph(input="/in", least=0, output="/branch", form="csv")
    note = rules.branch_note(
        made, STREAM, {"input": "/old", "least": 0, "output": "/real"}, [QuerySight(uid="result", output=output)]
    )
    assert note == Branch(of=PARENT, outputs={"result": output}, moved=("result",), parameters={"output": "/real"}), (
        "input is a source's, and the parent had no form"
    )


def with_savepoints(view: JobView, *locations: str) -> JobView:
    found = [
        Checkpoint(
            checkpoint_id=number,
            status=CheckpointStatus.COMPLETED,
            triggered_ms=number,
            savepoint=location,
        )
        for number, location in enumerate(locations, start=1)
    ]
    history = CheckpointHistory(newest=tuple(reversed(found)), latest_savepoint=found[-1] if found else None)
    shown = CheckpointsView(settings=CheckpointSettings(), history=history)
    return msgspec.structs.replace(view, checkpoints=shown)


def test_the_batches_of_the_savepoint_are_noted() -> None:
    saved = [QuerySight(uid="result", positions=(QueryPosition(4, ""),)), QuerySight(uid="other")]
    noted = rules.with_savepoint(Branch(of=PARENT), "/s/one", saved)
    assert (noted.savepoint, noted.batches) == ("/s/one", {"result": 4})


NOTE = Branch(of=PARENT, batches={"result": 3}, parameters={"output": "/real"})


@pytest.mark.parametrize(
    ("view", "note", "parameters", "words"),
    [
        (STREAM, NOTE, {"output": "/real"}, ""),
        (STREAM, None, {}, "is no branch: `firesteel branch` makes one"),
        (STREAM, Branch(of=PARENT, promoted=True), {}, "in the place of job"),
        (changed(status=JobStatus.CANCELED), NOTE, {"output": "/real"}, "it is CANCELED"),
        (changed(status=JobStatus.RESTARTING), NOTE, {"output": "/real"}, "do not run"),
        (changed(vertices=()), NOTE, {"output": "/real"}, "do not run"),
        (changed(vertices=(vertex(result=4, more=4),)), NOTE, {"output": "/real"}, "has the queries more, result, and"),
        (STREAM, NOTE, {}, "give --param NAME=VALUE"),
    ],
)
def test_what_can_be_promoted(view: JobView, note: Branch | None, parameters: dict[str, str], words: str) -> None:
    problem = rules.why_not_promoted(view, note, parameters)
    assert words in problem if words else not problem


def test_a_job_was_stopped_for_a_promotion_only_by_its_own_savepoint() -> None:
    mine = "/s/" + savepoint_name(PARENT, MARK + "0" * 24)
    ended = changed(status=JobStatus.FINISHED)
    assert rules.stopped_for(with_savepoints(ended, "/s/one", mine), MARK) == mine
    assert rules.stopped_for(with_savepoints(ended, "/s/one"), MARK) == ""
    assert rules.stopped_for(with_savepoints(ended), MARK) == ""
    assert rules.stopped_for(with_savepoints(STREAM, mine), MARK) == "", "it goes on"
    assert rules.stopped_for(with_savepoints(changed(status=JobStatus.CANCELED), mine), MARK) == ""
    assert rules.stopped_for(ended, MARK) == ""


def test_the_way_back_can_be_pasted() -> None:
    view = changed(parameters={"output": "/real out"}, configuration={"spark.x": "1"})
    assert rules.way_back(view, "/s/one") == (
        "firesteel submit FILE --name clicks --from-savepoint /s/one --param 'output=/real out' -D spark.x=1"
    )
