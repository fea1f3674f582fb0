"""The slider of the dashboard against the simulator: what `moments.js` makes of a job for a moment is what its JobMaster said then.

A story of a job is what its JobMaster showed whenever it had journaled something, as far as that came to be durable; and what a
dashboard is given of the job at some of these moments, from which it folds all those before.

What is compared: the job's status; of each vertex its subtasks by `group`, how many attempts it had, when the first of the
current ones was deployed and the last one ended, and the figures of what had finished; the failures, with how many came with
each. What no journal has is not: how far a deployed attempt was, who waited for a slot and who for its inputs, and the ends of
attempts that never came to a worker.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

import firesteel.rest
from firesteel.core.effects import Effect, Event, Persist, Persisted
from firesteel.core.jobmaster.jobmaster import JobMasterCore
from firesteel.core.journal.journal import JobState, copy_of
from firesteel.core.journal.records import RegionsEnded
from firesteel.core.machine import Core
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.model.views import JobView, SubtaskView, VertexView
from firesteel.rest.handlers.jobs import shown
from firesteel.rest.handlers.watching import attempt_rows
from firesteel.rest.schema.events import AttemptRow
from firesteel.testing.simulation.cores.run import Run, drawn
from firesteel.testing.simulation.cores.store import HISTORY_SIZE
from firesteel.testing.simulation.cores.world import SimulatedEndpoint
from firesteel.testing.simulation.faults import Faults
from firesteel.testing.simulation.mishaps import Mishaps

DASHBOARD = Path(firesteel.rest.__file__).with_name("dashboard")
DEPLOYED = ("DEPLOYING", "INITIALIZING", "RUNNING", "CANCELING", "RECONCILING")
FIGURES = ("rows_read", "bytes_read", "rows_written", "bytes_written")

Interpret = Callable[[SimulatedEndpoint, Effect], None]
Folded = list[dict[str, Any]]
Fold = Callable[[Sequence[tuple[Any, Any, Sequence[int]]]], Sequence[Folded]]
"""Runs `jobAt` for each (view, attempts) at each of the times."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What a JobMaster showed when it had journaled something."""

    at_ms: int
    view: JobView
    subtasks: tuple[tuple[SubtaskView, ...], ...]
    """By vertex."""


@dataclass(slots=True)
class Story:
    """Of one job."""

    moments: list[Moment] = field(default_factory=list)
    """What is durable of it."""
    leads: JobMasterCore | None = None
    pending: list[tuple[int, JobState, Moment]] = field(default_factory=list)
    """What is not known to be: with the number of the last record, and the state then."""
    unsent: set[tuple[int, int]] = field(default_factory=set)
    """Regions and attempts that never came to a worker."""

    def led_by(self, core: JobMasterCore, state: JobState) -> None:
        """A new JobMaster begins where what was durable of its predecessors ends."""
        places = [place for place, (_, known, _) in enumerate(self.pending) if known == state]
        self._durable(max(places, default=-1) + 1)
        self.pending.clear()
        self.leads = core

    def written(self, sequence: int) -> None:
        self._durable(sum(number <= sequence for number, _, _ in self.pending))

    def end(self) -> None:
        """Nobody comes after: all was written."""
        self._durable(len(self.pending))

    def _durable(self, count: int) -> None:
        self.moments += [moment for _, _, moment in self.pending[:count]]
        del self.pending[:count]


class Watcher:
    """Notes the stories of a run's jobs."""

    def __init__(self, run: Run) -> None:
        self.stories: dict[JobID, Story] = {}
        self._checks, self._adds = run.world.check, run.world.add
        run.world.check = self._check
        run.world.add = self._add  # type: ignore[method-assign]

    def _add(self, core: Core, node: str, interpret: Interpret) -> SimulatedEndpoint:
        if isinstance(core, JobMasterCore):
            story = self.stories.setdefault(core.job.graph.job_id, Story())
            story.led_by(core, copy_of(state_of(core)))
        return self._adds(core, node, interpret)

    def _check(self, endpoint: SimulatedEndpoint, event: Event, effects: list[Effect]) -> None:
        self._checks(endpoint, event, effects)
        core = endpoint.core
        story = self.stories.get(core.job.graph.job_id) if isinstance(core, JobMasterCore) else None
        if story is None or story.leads is not core or core.status is JobStatus.SUSPENDED:
            return
        if isinstance(event, Persisted):
            story.written(event.sequence)
        for effect in effects:
            if isinstance(effect, Persist):
                never = (r for r in effect.records if isinstance(r, RegionsEnded) and not r.ran)
                story.unsent.update((int(region), attempt) for record in never for region, attempt in record.ended)
                story.pending.append((effect.sequence, copy_of(state_of(core)), _moment(core)))


def state_of(core: JobMasterCore) -> JobState:
    return core.views._executions.state


def _moment(core: JobMasterCore) -> Moment:
    view = core.view()
    subtasks = tuple(core.views.subtasks(vertex.id) for vertex in view.vertices)
    return Moment(core.now_ms, view, subtasks)


# ── what is compared ─────────────────────────────────────────────────────────────────────────
def group(state: str) -> str:
    """As far as the journal tells: it waits, a worker may have it, or how it has ended."""
    if state in ("CREATED", "SCHEDULED"):
        return "WAITING"
    return "DEPLOYED" if state in DEPLOYED else state


def said(story: Story, moment: Moment, until: Moment) -> dict[str, Any]:
    """What a JobMaster said, as far as its journal has it; of as many subtasks as were decided on by then."""
    view = moment.view
    status = view.status_history[-1][0] if view.status is JobStatus.RECONCILING else view.status.value
    counts = [vertex.parallelism for vertex in until.view.vertices]
    parts = zip(view.vertices, moment.subtasks, counts, strict=True)
    vertices = [_said_of(vertex, subtasks[:count], story.unsent) for vertex, subtasks, count in parts]
    failures = [(e.timestamp_ms, e.region, e.attempt, len(e.concurrent)) for e in view.exceptions]
    return {"status": status, "vertices": vertices, "failures": failures}


def _said_of(vertex: VertexView, subtasks: Sequence[SubtaskView], unsent: set[tuple[int, int]]) -> dict[str, Any]:
    attempts, starts, ends = 1, list[int](), list[int]()
    tasks: Counter[str] = Counter()
    for subtask in subtasks:
        sent = (vertex.first_region + subtask.subtask, subtask.attempt) not in unsent
        is_deployed = subtask.task_manager is not None and sent
        tasks[group(subtask.state.name) if is_deployed else "WAITING"] += 1
        deployed = [each.attempt for each in (*subtask.earlier, *([subtask] if is_deployed else ()))]
        if deployed:
            attempts = max(attempts, deployed[-1] + 1 + (subtask.attempt > deployed[-1]))
        if is_deployed:
            starts.append(subtask.entered_ms["DEPLOYING"])
        if is_deployed and subtask.state.is_terminal:
            ends.append(subtask.entered_ms[subtask.state.name])
    io = {name: getattr(vertex.io, name) for name in FIGURES}
    end = max(ends) if len(ends) == len(subtasks) else -1
    return {"tasks": dict(tasks), "attempts": attempts, "start": min(starts, default=-1), "end": end, "io": io}


def told(vertex: dict[str, Any]) -> dict[str, Any]:
    """What the fold says of a vertex, in the same words."""
    tasks: dict[str, int] = {}
    for state, count in vertex["tasks"].items():
        tasks[group(state)] = tasks.get(group(state), 0) + count
    has_ended = not {"WAITING", "DEPLOYED"} & tasks.keys()
    io = {name: vertex["io"][name] for name in FIGURES if name not in vertex["io_lacking"]}
    end = vertex["end_time_ms"] if has_ended else -1
    return {"tasks": tasks, "attempts": vertex["attempts"], "start": vertex["start_time_ms"], "end": end, "io": io}


# ── what a dashboard is given ────────────────────────────────────────────────────────────────
def given(story: Story, moment: Moment) -> tuple[Any, Any]:
    """The view of the job and its attempts, as their routes give them at that moment; without what is in no journal."""
    rows: list[AttemptRow] = []
    for place, vertex in enumerate(moment.view.vertices):
        known = [row for row in attempt_rows(place, moment.subtasks[place]) if row.deployed >= 0]
        rows += [row for row in known if (vertex.first_region + row.subtask, row.attempt) not in story.unsent]
    view = shown(moment.view)
    vertices = [vertex.id for vertex in view.vertices]
    return msgspec.to_builtins(view), {"vertices": vertices, "attempts": msgspec.to_builtins(rows)}


def is_kept(story: Story, moment: Moment, until: Moment) -> bool:
    """Whether what is kept later still tells of all that there was by then: attempts, states, failures."""
    for then, later, vertex in zip(moment.subtasks, until.subtasks, until.view.vertices, strict=True):
        for subtask, last in zip(then[: len(later)], later, strict=True):
            kept = {each.attempt for each in (*last.earlier, last)}
            had = {each.attempt for each in (*subtask.earlier, *([subtask] if subtask.task_manager else ()))}
            sent = {each for each in had if (vertex.first_region + subtask.subtask, each) not in story.unsent}
            if not sent <= kept:
                return False
    has_failures = len(until.view.exceptions) < HISTORY_SIZE
    return has_failures and until.view.status_history[0][1] <= moment.at_ms


def looks(story: Story) -> Iterator[int]:
    """The moments at which a dashboard is given the job: the first ones, fewer and fewer, and the last."""
    last, place = len(story.moments) - 1, 1
    while place < last:
        yield place
        place *= 3
    yield last


@dataclass(slots=True)
class Tally:
    """What came of comparing."""

    jobs: int = 0
    compared: int = 0
    """Moments."""
    forgotten: int = 0
    """Moments of which not everything is kept."""
    differences: list[str] = field(default_factory=list)


def stories(seed: int) -> list[Story]:
    """Of the jobs of a run."""
    run = Run(seed, _of_one_clock(seed))
    watcher = Watcher(run)
    run.execute()
    for story in watcher.stories.values():
        story.end()
    return [story for story in watcher.stories.values() if story.moments]


def _of_one_clock(seed: int) -> Faults:
    """Of several clocks nobody can say what was before what."""
    return dataclasses.replace(drawn(Mishaps(seed)), clock_offset_ms_max=0, clock_drift=0.0)


def compare(tally: Tally, seed: int, told_of: Sequence[Story], fold: Fold) -> None:
    """Hold the fold against what the JobMasters of a run said."""
    chosen = [(story, look, _moments(story, look, tally)) for story in told_of for look in looks(story)]
    asked = [(*given(story, story.moments[look]), [each.at_ms for each in then]) for story, look, then in chosen]
    tally.jobs += len(told_of)
    for (story, look, then), found in zip(chosen, fold(asked), strict=True):
        for moment, folded in zip(then, found, strict=True):
            tally.compared += 1
            name = f"seed {seed}, {moment.view.name}, {moment.at_ms} seen at moment {look}"
            tally.differences += _differences(name, said(story, moment, story.moments[look]), folded)


def _moments(story: Story, look: int, tally: Tally) -> list[Moment]:
    """The last one of each millisecond that is kept."""
    last = {moment.at_ms: moment for moment in story.moments[: look + 1]}
    kept = [moment for moment in last.values() if is_kept(story, moment, story.moments[look])]
    tally.forgotten += len(last) - len(kept)
    return kept


def _differences(name: str, core: dict[str, Any], folded: dict[str, Any]) -> Iterator[str]:
    failures = [(e["timestamp_ms"], e["region"], e["attempt"], len(e["concurrent"])) for e in folded["exceptions"]]
    for what, mine, its in (("status", core["status"], folded["status"]), ("failures", core["failures"], failures)):
        if mine != its:
            yield f"{name}: {what} was {mine}, the slider shows {its}"
    for mine, vertex in zip(core["vertices"], folded["vertices"], strict=True):
        shows = told(vertex)
        known = {**mine, "io": {figure: mine["io"][figure] for figure in shows["io"]}}
        if known != shows:
            yield f"{name}: {vertex['name']} was {known}, the slider shows {shows}"
