"""Committing sinks: who performs which commit, and what is tried again. The journal holds what is done."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from firesteel.core.execution.partitions import locations_of
from firesteel.core.journal.journal import JobState
from firesteel.core.scheduler.outages import RETRY_MAX_MS, RETRY_MS
from firesteel.model.backoff import ExponentialBackoff
from firesteel.model.counts import counted
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import JobVertexID, ResourceID
from firesteel.model.jobgraph import JobGraph, JobType
from firesteel.model.labels import Labels
from firesteel.model.options import CHECKPOINTS_DIR
from firesteel.model.reports import SlotOffer
from firesteel.model.resources import ResourceProfile
from firesteel.model.streams import checkpoints_reference
from firesteel.model.tasks import RESULT_FORMAT, SinkCommit, StagedPart, TaskOutcome

COMMIT_ATTEMPTS_MAX = 3
"""Times a commit is tried that failed of what does not pass by itself and may be another worker's, before the job fails."""

COMMIT_REPEAT_MS = 10_000
"""Time after which a commit that was not answered is sent again; performing it twice is harmless."""

VISIBLE_NAMED_MAX = 3
"""Outputs that the failure of another commit names."""


def gather_commits(outcomes: Iterable[TaskOutcome]) -> tuple[SinkCommit, ...]:
    """The commits of a job's regions, given in their order: what the subtasks of one sink have staged for one target
    becomes one commit, since one that replaces the target would wipe out what another has put there."""
    gathered: dict[tuple[object, ...], list[SinkCommit]] = {}
    for outcome in outcomes:
        seen: Counter[tuple[object, ...]] = Counter()
        for commit in outcome.sinks:
            sink = (commit.vertex_id, commit.function, commit.format, commit.mode, commit.target)
            gathered.setdefault((*sink, seen[sink]), []).append(commit)
            seen[sink] += 1
    return tuple(_as_one(commits) for commits in gathered.values())


def undeleted(state: JobState, graph: JobGraph | None) -> tuple[str, ...]:
    """What is of no use once the job has ended: stored results, staged outputs that are not committed, checkpoints unless the
    last one is to stay. `graph` is None where nobody has it any more."""
    visible = {name for each in state.intended if each.commit_id in state.committed for name in each.stagings}
    left = (name for region in sorted(state.finished) for name in locations_of(state.finished[region]))
    return (*(name for name in left if name not in visible), *_checkpoints(state, graph))


def left_alone(state: JobState) -> frozenset[str]:
    """What was staged for commits that were ignored: nothing of it was written after all."""
    ignored = (each for each in state.intended if each.commit_id in state.ignored)
    return frozenset(name for each in ignored for name in each.stagings)


def without(outcome: TaskOutcome, staged: Collection[str]) -> TaskOutcome:
    """The outcome as if its sinks had no rows for these."""
    nothing = {"rows": 0, "size_bytes": 0}
    sinks = (msgspec.structs.replace(each, **nothing) if each.staging in staged else each for each in outcome.sinks)
    return msgspec.structs.replace(outcome, sinks=tuple(sinks))


def _checkpoints(state: JobState, graph: JobGraph | None) -> Iterator[str]:
    """Of a stream, as soon as an attempt may have run. Who retains the last one deletes the others after that."""
    if (
        graph is not None
        and not state.retained
        and graph.job_type is JobType.STREAMING
        and (state.history or state.deployed)
    ):
        yield checkpoints_reference(graph.job_id, graph.configuration.get(CHECKPOINTS_DIR.key, ""))


def _as_one(commits: list[SinkCommit]) -> SinkCommit:
    if len(commits) == 1:
        return commits[0]
    parts = tuple(StagedPart(staging=commit.staging, files=commit.files) for commit in commits[1:])
    return msgspec.structs.replace(
        commits[0],
        parts=commits[0].parts + parts,
        rows=_total([commit.rows for commit in commits]),
        size_bytes=_total([commit.size_bytes for commit in commits]),
    )


def _total(figures: list[int]) -> int:
    return -1 if -1 in figures else sum(figures)


def told_of_visible(failure: FailureInfo, done: Sequence[SinkCommit]) -> FailureInfo:
    """The failure of a commit, with what the job's other sinks show by then: whoever runs the job again has it twice."""
    outputs = [f"{each.function} to {each.target}" for each in done if each.format != RESULT_FORMAT]
    if not outputs:
        return failure
    more = len(outputs) - VISIBLE_NAMED_MAX
    shown = ", ".join(outputs[:VISIBLE_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
    message = f"{failure.message}; what is committed already stays, and a retry of the job writes it again: {shown}"
    return msgspec.structs.replace(failure, message=message)


@dataclass(slots=True)
class _Trouble:
    """A commit that has failed and may be tried again."""

    failure: FailureInfo
    since_ms: int
    lasting: int = 0
    """Times that it failed of what does not pass by itself."""
    passing: int = 0
    """Times that it failed of what may."""


class SinkCommitter:
    """The worker that was asked last for each commit that is not done, and when to ask again.

    A commit is done by a worker with the labels of its sink: another one's Spark may lack what the sink needs, such as a
    catalog, jars or a mount.
    """

    def __init__(self, graph: JobGraph, patience_ms: int) -> None:
        self._wanted: dict[JobVertexID, Labels] = {vertex.id: vertex.resources.labels for vertex in graph.vertices}
        self._labels: dict[ResourceID, Labels] = {}
        """As far as slots that workers have offered tell."""
        self._asked: dict[str, tuple[ResourceID, int]] = {}
        self._patience_ms, self._pauses = patience_ms, ExponentialBackoff(RETRY_MS, RETRY_MAX_MS)
        self._troubles: dict[str, _Trouble] = {}
        self._given_up: dict[str, FailureInfo] = {}

    def met(self, worker: ResourceID, offers: Iterable[SlotOffer]) -> None:
        """A worker has offered slots, which have its labels."""
        for offer in offers:
            self._labels[worker] = offer.profile.labels

    def lost(self, worker: ResourceID) -> None:
        self._labels.pop(worker, None)

    def due(
        self, commits: Sequence[SinkCommit], workers: Collection[ResourceID], now_ms: int
    ) -> dict[ResourceID, list[SinkCommit]]:
        """What to send now, by worker: commits never asked for, or whose worker is gone or silent."""
        out: dict[ResourceID, list[SinkCommit]] = {}
        able = self._able(commits, workers)
        for position, commit in enumerate(commits):
            worker, again_ms = self._asked.get(commit.commit_id, (None, now_ms))
            trouble = self._troubles.get(commit.commit_id)
            tried = trouble.lasting + trouble.passing if trouble is not None else 0
            open_, fitting = commit.commit_id not in self._given_up, able[self._wanted_of(commit)]
            if open_ and fitting and (worker not in workers or again_ms <= now_ms):
                chosen = fitting[(position + tried) % len(fitting)]
                self._asked[commit.commit_id] = (chosen, now_ms + COMMIT_REPEAT_MS)
                out.setdefault(chosen, []).append(commit)
        return out

    def requirements(
        self, commits: Sequence[SinkCommit], workers: Collection[ResourceID]
    ) -> tuple[tuple[ResourceProfile, int], ...]:
        """A slot for each kind of worker that is needed to commit and is not there: what has one is known here then."""
        lacking = [labels for labels, fitting in self._able(commits, workers).items() if not fitting]
        return tuple((ResourceProfile(labels=labels), 1) for labels in lacking)

    def _able(self, commits: Sequence[SinkCommit], workers: Collection[ResourceID]) -> dict[Labels, list[ResourceID]]:
        """The workers that may do these commits, by the labels that these want."""
        return {
            labels: [worker for worker in workers if set(labels).issubset(self._labels.get(worker, ()))]
            for labels in dict.fromkeys(map(self._wanted_of, commits))
        }

    def _wanted_of(self, commit: SinkCommit) -> Labels:
        return self._wanted.get(commit.vertex_id, ())

    def failed(self, commit_id: str, failure: FailureInfo, now_ms: int) -> None:
        """A commit could not be done: try again in a while, on another worker, or give it up."""
        trouble = self._troubles.setdefault(commit_id, _Trouble(failure, now_ms))
        trouble.failure = failure
        trouble.lasting += not failure.may_pass
        trouble.passing += failure.may_pass
        was_long = failure.may_pass and now_ms - trouble.since_ms >= self._patience_ms
        if was_long or failure.stays or trouble.lasting >= COMMIT_ATTEMPTS_MAX:
            self._given_up.setdefault(commit_id, failure if failure.stays else _given_up(trouble, now_ms, was_long))
        elif commit_id in self._asked:
            worker, _ = self._asked[commit_id]
            self._asked[commit_id] = (worker, now_ms + int(self._pauses.after(max(1, trouble.passing))))

    def waits(self, commits: Iterable[SinkCommit]) -> list[str]:
        """Why what is not done is not, for people: what is tried again, by output."""
        open_ = (commit for commit in commits if commit.commit_id not in self._given_up)
        return [
            f"{commit.function} can't be committed yet ({trouble.failure.shown_message()}) and is tried again"
            for commit in open_
            if (trouble := self._troubles.get(commit.commit_id)) is not None
        ]

    def verdict(self, commits: list[SinkCommit]) -> FailureInfo | None:
        """Why the job fails, when all that is not done has been given up: the others are rolled forward first."""
        reasons = [self._given_up.get(commit.commit_id) for commit in commits]
        return reasons[0] if reasons and all(reasons) else None

    def next_ms(self, commits: list[SinkCommit], now_ms: int) -> int | None:
        """When `due` wants to be asked again; None while only a new worker can help."""
        times = (self._asked[c.commit_id][1] for c in commits if c.commit_id in self._asked)
        return min((time for time in times if time > now_ms), default=None)


def _given_up(trouble: _Trouble, now_ms: int, was_long: bool) -> FailureInfo:
    """What has lasted says how often it was tried: another worker might have been able to. A refusal is one everywhere."""
    failure, within = trouble.failure, f"in {(now_ms - trouble.since_ms) // 1_000} s"
    if was_long:
        tried = f"tried {counted(trouble.passing, 'time')} {within}: mend that, then retry the job"
    elif failure.kind is FailureKind.NON_RECOVERABLE:
        return failure
    else:
        tried = f"tried {counted(trouble.lasting, 'time')} {within}, by each worker in turn"
    return msgspec.structs.replace(failure, message=f"{failure.message}; {tried}")
