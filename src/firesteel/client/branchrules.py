"""What decides about branches: views, graphs and parameters in, values or sentences out. Pure."""

import shlex
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from firesteel.model import options
from firesteel.model.branches import Branch, WireValue
from firesteel.model.checkpoints import Checkpoint, CheckpointStatus
from firesteel.model.jobgraph import FunctionKind, JobGraph, JobType
from firesteel.model.secrets import HIDDEN
from firesteel.model.states import JobStatus
from firesteel.model.streams import QuerySight, savepoint_name
from firesteel.model.views import JobView

NOT_INHERITED = tuple(
    each.key
    for each in (
        options.RESTORE_PATH,
        options.CLAIM_MODE,
        options.IGNORE_UNCLAIMED,
        options.IGNORE_CHANGED_PLAN,
        options.BRANCH,
    )
)
"""Options of a job that are about its own start."""
MARKED_DIGITS = 8
"""Digits at the beginning of a savepoint's id that say for whose promotion it is."""


def batches_of(view: JobView) -> dict[str, int]:
    """The last committed batch of each query that is heard of, by uid."""
    return {query.uid: query.batch_id for vertex in view.vertices for each in vertex.progress for query in each.queries}


def runs(view: JobView) -> bool:
    """Whether all of the job's queries are heard of."""
    sinks = sum(kind == FunctionKind.SINK.value for vertex in view.vertices for kind in vertex.kinds)
    return len(batches_of(view)) >= max(sinks, 1)


def why_not_branched(view: JobView) -> str:
    """Why a job can't be branched now, or empty."""
    named = f"job {view.job_id} ({view.name})"
    if view.job_type is not JobType.STREAMING:
        return f"{named} is a batch job: streams can be branched"
    if view.status.is_globally_terminal:
        advice = "start from its savepoint, if it has one: firesteel submit FILE --from-savepoint PATH"
        return f"{named} has ended, it is {view.status.value}: {advice}"
    if not runs(view) or min(batches_of(view).values(), default=-1) < 0:
        why = "it has no state yet that another plan might not fit"
        return f"not every query of {named} has committed a batch: {why}. Branch it when each has"
    return ""


def inherited(values: Mapping[str, object]) -> tuple[dict[str, str], list[str]]:
    """Values of a job's view as texts, and the names of those that it keeps secret."""
    texts = {name: str(value) for name, value in values.items()}
    hidden = [name for name, text in texts.items() if HIDDEN in text]
    return {name: text for name, text in texts.items() if name not in hidden}, hidden


def inherited_options(view: JobView) -> tuple[dict[str, str], list[str]]:
    """The job's own options for a branch of it, and those that are secret."""
    return inherited({key: value for key, value in view.configuration.items() if key not in NOT_INHERITED})


def branch_note(
    graph: JobGraph, parent: JobView, values: Mapping[str, WireValue], sights: Iterable[QuerySight]
) -> Branch:
    """What is noted of a branch before there is a savepoint. `values` are the parent's, of parameters that both take."""
    sinks = [each for vertex in graph.vertices for each in vertex.functions if each.kind is FunctionKind.SINK]
    changed = {name for name, value in graph.parameters.items() if values.get(name) != value}
    return Branch(
        of=parent.job_id,
        outputs={sight.uid: sight.output for sight in sights if sight.output is not None},
        moved=tuple(sink.uid for sink in sinks if changed.intersection(sink.parameters)),
        parameters={
            name: values[name] for sink in sinks for name in sink.parameters if name in changed and name in values
        },
    )


def with_savepoint(branch: Branch, savepoint: str, saved: Iterable[QuerySight]) -> Branch:
    """The note, now that there is a savepoint with these queries."""
    batches = {sight.uid: sight.positions[-1].batch for sight in saved if sight.positions}
    return msgspec.structs.replace(branch, savepoint=savepoint, batches=batches)


def why_not_promoted(view: JobView, branch: Branch | None, parameters: Mapping[str, WireValue]) -> str:
    """Why a job can't take the place of the one it branches from, or empty."""
    named = f"job {view.job_id} ({view.name})"
    if branch is None:
        return f"{named} is no branch: `firesteel branch` makes one"
    if branch.promoted:
        return f"{named} has been promoted: it is in the place of job {branch.of} already"
    if view.status.is_globally_terminal:
        return f"{named} has ended, it is {view.status.value}: a branch is promoted while it runs"
    batches = batches_of(view)
    if view.status is not JobStatus.RUNNING or not runs(view):
        return f"the queries of {named} do not run: a branch is promoted while they do"
    if batches.keys() != branch.batches.keys():
        mine, its = (", ".join(sorted(each)) for each in (batches, branch.batches))
        return (
            f"{named} has the queries {mine}, and job {branch.of} has {its}: a sink that begins anew has no place in the"
            f" other's output. Stop job {branch.of}, and start the new version from its savepoint, with each output named:"
            " firesteel submit FILE --from-savepoint PATH"
        )
    if not parameters:
        return (
            f"the sinks of {named} have the parameters of job {branch.of}, so nothing says how the new job is to write where"
            " that one does: give --param NAME=VALUE"
        )
    return ""


def is_for_promotion(savepoint: str, of: str, mark: str) -> bool:
    """Whether this is a savepoint of job `of` that was taken for the promotion with that mark."""
    return savepoint.rstrip("/").rpartition("/")[2].startswith(savepoint_name(of, mark))


def stopped_for(view: JobView, mark: str) -> str:
    """Location of the savepoint with which a job has ended for that promotion; empty when it ended otherwise."""
    done = [each.savepoint for each in _savepoints(view) if each.status is CheckpointStatus.COMPLETED]
    found = [each for each in done if is_for_promotion(each, view.job_id, mark)]
    return found[0] if found and view.status is JobStatus.FINISHED else ""


def way_back(parent: JobView, savepoint: str) -> str:
    """The command that starts the former version again where it was stopped."""
    words = ["firesteel", "submit", "FILE", "--name", parent.name, "--from-savepoint", savepoint]
    for name, text in inherited(parent.parameters)[0].items():
        words += ["--param", f"{name}={text}"]
    for key, text in inherited_options(parent)[0].items():
        words += ["-D", f"{key}={text}"]
    return shlex.join(words)


def _savepoints(view: JobView) -> Sequence[Checkpoint]:
    """Newest first."""
    if view.checkpoints is None:
        return ()
    history = view.checkpoints.history
    latest = (history.latest_savepoint,) if history.latest_savepoint is not None else ()
    return [each for each in (*history.newest, *latest) if each.savepoint]
