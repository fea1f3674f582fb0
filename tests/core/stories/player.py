"""Golden story scripts: what a core is told, and what it does, as text one can read.

A line `> verb word... key=value` is something that happens, a line `# ...` a comment; what the core
does about it follows, indented. Time stands still but for `wait MS`; what is to be durable is, at
once, unless the script says `hold`. The player writes the effects, so a script is made by writing
its `>` lines and running `pytest tests/core/test_stories.py --rewrite`: then read it.
"""

import dataclasses
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from enum import Enum

import msgspec

from firesteel.core.effects import (
    Effect,
    Event,
    LeaderChanged,
    PeerLost,
    Persist,
    Persisted,
    PersistFailed,
    Received,
    Send,
    SetTimer,
    Started,
    Timer,
    TimerFired,
)
from firesteel.core.machine import Core
from firesteel.core.requests import Reply
from firesteel.core.timers import HeartbeatDue
from firesteel.model import messages as m
from firesteel.model.failures import FailureInfo
from firesteel.model.ids import Address, FencingToken, JobID, RegionAttemptID, RegionIndex
from firesteel.model.jobgraph import JobGraph
from firesteel.model.reports import SlotAllocation, SlotOffer, SplitRequest
from firesteel.model.resources import ResourceProfile
from firesteel.model.splits import DrawnSplits, RangeInputSplit, SplitEnumeration
from firesteel.model.tasks import JobInformation, ResultGroup, ResultPartition, SinkCommit, TaskDeployment, results_of
from firesteel.model.views import JobResult, JobView
from tests.core.graphs import JOB

HIDDEN = ("at_ms", "timestamp_ms", "since_ms", "start_time_ms", "end_time_ms", "vertices", "subtask", "requested_ms")
"""Fields that would only make a story longer."""

OPTION = re.compile(r"[a-z]+=")

UNTOLD_TIMERS = (HeartbeatDue,)


class Player(ABC):
    """Plays one script on one core. Subclasses make the core, and have a method for each verb."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.timers: dict[Timer, int] = {}
        self.journal: list[object] = []
        self.writes: list[int] = []
        """How many records were durable after each write."""
        self.out: list[str] = []
        self.holds = False
        self._waiting: int | None = None
        self.core = self.make_core()

    @abstractmethod
    def make_core(self) -> Core:
        """The core of the story."""

    def play(self, script: str) -> str:
        """The script with what the core does about it."""
        told: list[str] = []
        for line in script.splitlines():
            if line.startswith(">"):
                self.out = []
                self._step(line[1:].split())
                told += [line, *(f"    {item}" for item in self.out)]
            elif not line.startswith(" "):
                told.append(line)
        return "\n".join(told) + "\n"

    def _step(self, words: list[str]) -> None:
        verb, *rest = words
        options = dict(word.split("=", 1) for word in rest if OPTION.match(word))
        method: Callable[..., None] = getattr(self, "do_" + verb.replace("-", "_"))
        method(*(word for word in rest if not OPTION.match(word)), **options)

    # ── events ───────────────────────────────────────────────────────────────────────────────
    def give(self, event: Event) -> None:
        """Let the core answer an event; then what it wants durable is."""
        for effect in self.core.handle(event, self.now_ms):
            self.take(effect)
        self.core.validate()
        if self._waiting is not None and not self.holds:
            sequence, self._waiting = self._waiting, None
            self.give(Persisted(sequence))

    def deliver(
        self, sender: str, body: m.AnyMessage, token: int | None = None, recipient_token: FencingToken | None = None
    ) -> None:
        """A message for this session of the core arrives."""
        envelope = m.Envelope(
            sender=Address(sender),
            recipient=self.core.address,
            sender_token=None if token is None else FencingToken(token, sender),
            recipient_token=recipient_token or self.core.token,
            body=body,
        )
        self.give(Received(envelope))

    def do_start(self) -> None:
        self.give(Started())

    def do_leads(self, name: str, epoch: str | None = None, component: str | None = None) -> None:
        """`leads rm 3`: someone leads a component; without an epoch nobody does."""
        leader = None if epoch is None else m.Leader(Address(name), FencingToken(int(epoch), name))
        self.give(LeaderChanged(component or {"rm": "resource_manager", "jm": JOB}.get(name, name), leader))

    def do_peer_lost(self, address: str) -> None:
        self.give(PeerLost(address, "connection reset"))

    def do_hold(self) -> None:
        """From here on nothing becomes durable."""
        self.holds = True

    def do_persisted(self) -> None:
        """What was held is durable, and all that comes after it."""
        self.holds = False
        assert self._waiting is not None, "nothing is held"
        sequence, self._waiting = self._waiting, None
        self.give(Persisted(sequence))

    def do_persisted_but_the_last(self) -> None:
        """What was held is durable, except for the last write, which is under way."""
        assert self._waiting is not None, "nothing is held"
        self.give(Persisted(self._waiting - 1))

    def do_persist_fails(self) -> None:
        self.give(PersistFailed("another leader has the journal"))

    def do_wait(self, milliseconds: str) -> None:
        """Time passes: timers fire when they are due."""
        end_ms = self.now_ms + int(milliseconds)
        while due := [(at_ms, timer) for timer, at_ms in self.timers.items() if at_ms <= end_ms]:
            at_ms, timer = min(due, key=lambda pair: pair[0])
            del self.timers[timer]
            self.now_ms = max(self.now_ms, at_ms)
            said, self.out = self.out, []
            self.give(TimerFired(timer))
            self.out = [*said, *([f"-- {self.now_ms} ms: {show(timer)}"] if self.out else []), *self.out]
        self.now_ms = end_ms

    def do_stopped(self, milliseconds: str) -> None:
        """The process does not run for so long: timers fire when it goes on."""
        self.now_ms += int(milliseconds)

    def do_fire(self, name: str, *words: str) -> None:
        """A timer that is not due, or belongs to nothing, fires."""
        kinds = {kind.__name__: kind for kind in Timer.__subclasses__()}
        self.give(TimerFired(kinds[name](*words)))

    def do_story(self) -> None:
        """The core's last line about itself."""
        self.out.append(self.core.story[-1])

    # ── effects ──────────────────────────────────────────────────────────────────────────────
    def take(self, effect: Effect) -> None:
        """Write an effect down."""
        match effect:
            case Send(envelope=envelope):
                fence = "" if envelope.recipient_token is None else f" ({envelope.recipient_token.epoch})"
                self.out.append(f"to {envelope.recipient}{fence}: {show(envelope.body)}")
            case SetTimer(timer=timer, at_ms=at_ms):
                self.timers[timer] = at_ms
                if not isinstance(timer, UNTOLD_TIMERS):
                    self.out.append(f"timer {show(timer)} at {at_ms}")
            case Persist(sequence=sequence, records=records):
                self.journal += records
                self.writes.append(len(self.journal))
                self._waiting = sequence
                self.out += [f"journal {show(record)}" for record in records]
            case Reply(request_id=request_id, value=value):
                self.out.append(f"reply {request_id}: {show(value)}")
            case _:
                self.out.append(show(effect))


def attempt(text: str, job: JobID = JOB) -> RegionAttemptID:
    """`2#1`: attempt 1 of region 2."""
    region, _, number = text.partition("#")
    return RegionAttemptID(job, RegionIndex(int(region)), int(number))


def listed(text: str) -> list[str]:
    """The parts of a list without spaces."""
    return [part for part in text.split(",") if part]


def show(value: object) -> str:
    """A value as a reader of a story wants it: short, defaults left out."""
    match value:
        case Enum():
            return value.name
        case None | bool() | int() | float() | str():
            return str(value)
        case tuple() | list():
            return "[" + ", ".join(show(item) for item in value) + "]"
        case dict():
            return "{" + ", ".join(f"{show(key)}: {show(item)}" for key, item in value.items()) + "}"
        case Exception():
            return f"{type(value).__name__}: {value}"
        case _:
            return show_known(value) or f"{type(value).__name__}({', '.join(show_fields(value))})"


def show_known(value: object) -> str:
    """The short names of what is in most stories; empty for anything else."""
    match value:
        case RegionAttemptID():
            return f"{value.region}#{value.attempt}"
        case FencingToken():
            return str(value.epoch)
        case m.Leader():
            return f"{value.address} ({value.token.epoch})"
        case FailureInfo():
            return f"{value.kind.value}: {value.message}{value.verdict and f' ({value.verdict})'}"
        case ResourceProfile():
            return f"{value.cpu_cores:g} cores"
        case JobGraph():
            return value.name
        case JobInformation():
            return value.graph.name
        case SinkCommit():
            return f"commit {value.commit_id} of {value.staging}"
        case ResultPartition():
            return value.location
        case TaskDeployment():
            reads = f" reading {show(value.inputs)}" if value.inputs else ""
            whole = f" reading all of {', '.join(dataset for dataset, _ in value.groups)}" if value.groups else ""
            former = f" after attempt {value.former}" if value.former >= 0 else ""
            ran = ", one has run" if value.has_run else ""
            count = f" of {value.subtasks} subtasks" if value.subtasks else ""
            return f"{show(value.attempt)}{count} in {value.allocation_id}{reads}{whole}{former}{ran}"
        case ResultGroup():
            return show(results_of(value))
        case SplitEnumeration():
            return f"{len(value.splits)} splits"
        case DrawnSplits():
            shown = ",".join(str(split.lower) for split in value.splits if isinstance(split, RangeInputSplit))
            return f"draw {value.number}: {shown or 'nothing'}{' for its columns' if value.is_end and shown else ''}"
        case SplitRequest():
            return f"draw {value.number} of {show(value.attempt)}"
        case SlotOffer():
            return value.allocation_id
        case SlotAllocation():
            return f"{value.index}: {value.allocation_id} of {value.job_id}"
        case JobView():
            return value.status.name
        case JobResult():
            return f"{value.status.name}{f' of {show(value.failure)}' if value.failure else ''}"
        case _:
            return ""


def show_fields(value: object) -> Iterator[str]:
    """`name=value` of each field that is not at its default."""
    for name, default in fields_of(value):
        item = getattr(value, name)
        if name not in HIDDEN and item != default and item not in ((), JOB):
            yield f"{name}={show(item)}"


def fields_of(value: object) -> Iterable[tuple[str, object]]:
    """(name, default) of each field."""
    if isinstance(value, msgspec.Struct):
        return [(field.name, field.default) for field in msgspec.structs.fields(value)]
    assert dataclasses.is_dataclass(value), f"a story can't show {value!r}"
    return [(field.name, field.default) for field in dataclasses.fields(value)]
