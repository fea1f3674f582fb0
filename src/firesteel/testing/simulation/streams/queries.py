"""The queries of a worker's attempts: they read, write and commit batches by themselves, also when nobody wants them to."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import msgspec

from firesteel.core.checkpoint.beginning import Beginning, Start, beginning_of
from firesteel.core.checkpoint.generations import Claim
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import JobID, RegionAttemptID
from firesteel.model.jobgraph import FunctionKind, JobGraph
from firesteel.model.options import RESTORE_PATH, Configuration
from firesteel.model.tasks import TaskDeployment
from firesteel.testing.simulation.cores.world import World
from firesteel.testing.simulation.streams.directories import OFFSETS, Directory
from firesteel.testing.simulation.streams.outputs import OutputLost, Superseded
from firesteel.testing.simulation.streams.pipelines import ENDING
from firesteel.testing.simulation.streams.storage import SavedQuery, StreamStorage

POLL_MS = 400
"""Time after which a query that has read all looks again."""

BATCH_ROWS_MAX = 4
BATCH_MS_MAX = 400


class QueryFailed(Exception):
    """The user's code has raised, or the query's directory is gone."""


@dataclass(slots=True, eq=False)
class Query:
    """One query of one attempt, on its own directory and its own generation of the output."""

    world: World
    storage: StreamStorage
    output: str
    directory: Directory
    generation: int
    ended: Callable[["Query", str], None]
    """Told why it has failed; an empty text when it has read all."""
    dies_ms: int | None = None
    """Of a zombie: when it is over."""
    has_ended: bool = False
    _life: Iterator[int] | None = None

    def start(self, *, until_read: bool = False) -> None:
        """From the last committed batch on; what was in flight is abandoned. `until_read`: to the end of what is there."""
        until = self.storage.sources[self.output].available(self.world.now_ms) if until_read else None
        self._life = self._batches(until)
        self._go_on(self._life)

    def stop(self) -> None:
        """At once: a batch in flight is abandoned."""
        self._life = None

    def _go_on(self, life: Iterator[int]) -> None:
        """Until it waits for something. Who was stopped meanwhile, or has died, does nothing more."""
        if self._life is not life or (self.dies_ms is not None and self.world.now_ms >= self.dies_ms):
            return
        try:
            while True:
                if self.directory.is_deleted:
                    raise QueryFailed("its checkpoint directory is gone")
                if delay_ms := next(life, None):
                    self.world.after(delay_ms, partial(self._go_on, life))
                    return
                if delay_ms is None:
                    self._end("")
                    return
        except (QueryFailed, Superseded, OutputLost) as error:
            self._end(str(error))

    def _end(self, failure: str) -> None:
        self._life, self.has_ended = None, True
        self.ended(self, failure)

    def _batches(self, until: int | None) -> Iterator[int]:
        """Milliseconds to wait, after each step."""
        directory, chance = self.directory, self.world.stream("stream")
        output, source = self.storage.outputs[self.output], self.storage.sources[self.output]
        while True:
            batch = directory.last + 1
            first = directory.end_of(batch - 1)
            if (OFFSETS, batch) not in directory.files:
                there = source.available(self.world.now_ms)
                there = there if until is None else min(there, until)
                if there <= first:
                    if until is not None:
                        return
                    yield POLL_MS
                    continue
                if batch == directory.fence:
                    raise QueryFailed("a later attempt goes on from here")
                directory.files[OFFSETS, batch] = min(there, first + chance.randint(1, BATCH_ROWS_MAX))
            yield chance.randint(1, BATCH_MS_MAX)
            if self.world.mishaps.strikes("batch fails", self.world.faults.task_failure / 8):
                raise QueryFailed("the user's code raised")
            planned = (first, directory.end_of(batch))
            yield from self._steps(output.begin(self.generation, batch, directory.query_id, planned))
            directory.run(batch)
            if not output.is_there(self.generation, batch, planned):
                output.stage(self.generation, batch, planned)
                yield from self._steps(output.commit(self.generation, batch))
            self.storage.commits += 1
            directory.commit(batch, self.storage.commits)

    def _steps(self, steps: Iterator[None]) -> Iterator[int]:
        faults = self.world.faults
        for _ in steps:
            if self.world.mishaps.strikes("query pauses", faults.query_pause):
                yield self.world.stream("query pauses:by").randint(1, faults.query_pause_ms_max)
            else:
                yield 0
        yield 0


@dataclass(slots=True)
class Attempt:
    """The queries of an attempt."""

    queries: dict[str, Query] = field(default_factory=dict)
    """By uid."""
    is_stopping: bool = False


class FakeQueries:
    """Those of one worker. `ended` is told when all queries of an attempt have read what they were to, or one has failed."""

    def __init__(
        self,
        world: World,
        storage: StreamStorage,
        worker: str,
        ended: Callable[[RegionAttemptID, FailureInfo | None], None],
    ) -> None:
        self.world, self.storage, self.worker, self._ended = world, storage, worker, ended
        self.attempts: dict[RegionAttemptID, Attempt] = {}
        self.used: dict[JobID, None] = {}
        """Jobs whose directories it has made use of."""
        self._prepared: dict[RegionAttemptID, dict[str, Directory]] = {}
        self._ending: dict[RegionAttemptID, None] = {}
        """Attempts whose queries end when they have read what is there."""

    def prepare(self, graph: JobGraph, deployment: TaskDeployment) -> FailureInfo | None:
        """Make an attempt's directories. Returns why that can't be."""
        identity = deployment.attempt
        self.used[identity.job_id] = None
        made = self._prepared[identity] = {}
        for uid in sinks_of(graph, deployment):
            directory = self._directory(graph, deployment, uid)
            if isinstance(directory, FailureInfo):
                for other in made:
                    self.storage.home(self.worker, identity.job_id, other).pop(identity.attempt)
                return msgspec.structs.replace(directory, unbegun=True)
            made[uid] = directory
        if ends_by_itself(graph, deployment):
            self._ending[identity] = None
        return None

    def start(self, identity: RegionAttemptID) -> FailureInfo | None:
        """Start the queries of an attempt that is prepared. Returns why that can't be."""
        made, prepared = Attempt(), self._prepared.pop(identity)
        for uid, directory in prepared.items():
            output = self.storage.output(identity.job_id, uid)
            try:
                generation = self.storage.outputs[output].claim(Claim(identity.job_id, identity.attempt))
            except Superseded as error:
                for each in prepared:
                    self.storage.home(self.worker, identity.job_id, each).pop(identity.attempt)
                return FailureInfo(kind=FailureKind.USER, message=str(error), unbegun=True)
            ended = partial(self._query_ended, identity)
            made.queries[uid] = Query(self.world, self.storage, output, directory, generation, ended)
        self.attempts[identity] = made
        for query in made.queries.values():
            if identity in self.attempts:  # else one before has failed at once
                query.start(until_read=identity in self._ending)
        return None

    def stop(self, attempt: RegionAttemptID, *, drain: bool) -> None:
        """Have the queries end. What was said first counts."""
        known = self.attempts.get(attempt)
        if known is None or known.is_stopping:
            return
        known.is_stopping = True
        for query in known.queries.values():
            query.stop()
        for query in known.queries.values() if drain else ():
            if attempt in self.attempts:  # else one before has failed at once
                query.has_ended = False
                query.start(until_read=True)
        if not drain:
            self._ended(attempt, None)

    def end(self, attempt: RegionAttemptID) -> None:
        """The attempt is over."""
        known = self.attempts.pop(attempt, None)
        self._prepared.pop(attempt, None)
        self._ending.pop(attempt, None)
        for query in known.queries.values() if known is not None else ():
            query.stop()

    def die(self) -> None:
        """The worker's process is gone. What it has started may go on for a while."""
        for known in self.attempts.values():
            lives = self.world.mishaps.strikes("zombie", self.world.faults.zombie)
            lives_ms = self.world.stream("zombie:by").randint(1, self.world.faults.zombie_ms_max) if lives else 0
            for query in known.queries.values():
                query.ended = lambda query, failure: None
                query.dies_ms = self.world.now_ms + lives_ms
        self.attempts.clear()

    def release(self, job_id: JobID, *, is_over: bool, retained: str | None = "") -> None:
        """Delete the job's directories, unless others may be at work there. What stays is saved before."""
        if is_over and retained != "" and (retained or job_id in self.used):
            self.storage.retain(job_id, retained)
        if job_id in self.used:
            del self.used[job_id]
            if is_over:
                self.storage.release(self.worker, job_id)

    def _query_ended(self, attempt: RegionAttemptID, query: Query, failure: str) -> None:
        known = self.attempts.get(attempt)
        if known is None:
            return
        if failure:
            self._ended(attempt, FailureInfo(kind=FailureKind.USER, message=failure))
        elif all(each.has_ended for each in known.queries.values()):
            self._ended(attempt, None)

    def _directory(self, graph: JobGraph, deployment: TaskDeployment, uid: str) -> Directory | FailureInfo:
        """Make the attempt's directory."""
        identity = deployment.attempt
        home = self.storage.home(self.worker, identity.job_id, uid)
        # That they vanish, and nobody has heard that they were there, is not survived.
        if deployment.has_run and self.world.mishaps.strikes(
            "checkpoints vanish", self.world.faults.checkpoints_vanish
        ):
            for directory in home.values():
                directory.is_deleted = True
            home.clear()
            self.storage.vanished[identity.job_id] = None
        savepoint = self._savepoint(graph, uid) if not home else None
        beginning = beginning_of(
            identity.attempt,
            tuple(home),
            former=deployment.former,
            has_run=deployment.has_run,
            is_shared=self.storage.is_shared,
            has_savepoint=savepoint is not None,
        )
        if beginning.start in (Start.LOST, Start.LATE):
            return FailureInfo(kind=FailureKind.NON_RECOVERABLE, message=f"no checkpoints: {beginning.start.value}")
        if beginning.start is not Start.FORMER and identity.attempt:
            self.storage.anew.append((identity.job_id, uid))
        assert identity.attempt not in home, f"{identity} has a directory already"
        self.storage.begun[identity.job_id] = None
        home[identity.attempt] = self._made(home, beginning, savepoint)
        for number in beginning.obsolete:
            home.pop(number).is_deleted = True
        return home[identity.attempt]

    def _savepoint(self, graph: JobGraph, uid: str) -> SavedQuery | None:
        """What a query starts from."""
        path = Configuration(graph.configuration).get_option(RESTORE_PATH)
        job = JobID(path.rpartition("/")[0].rpartition("/")[2])
        return self.storage.saved(path, job).queries.get(uid) if path else None

    def _made(self, home: dict[int, Directory], beginning: Beginning, saved: SavedQuery | None) -> Directory:
        storage = self.storage
        match beginning.start:
            case Start.FORMER:
                return home[beginning.former].forked()
            case Start.SAVEPOINT:
                assert saved is not None, "it has one"
                return Directory(saved.query_id, storage.retained, dict(saved.files), dict(saved.line))
            case _:
                storage.commits += 1
                return Directory(f"query-{storage.commits}", storage.retained)


def ends_by_itself(graph: JobGraph, deployment: TaskDeployment) -> bool:
    """Whether the queries of a region read what is there, and end."""
    return any(vertex.name.endswith(ENDING) for vertex in graph.vertices if vertex.id in deployment.vertices)


def sinks_of(graph: JobGraph, deployment: TaskDeployment) -> list[str]:
    """uids of the sinks in a region."""
    functions = (each for vertex in graph.vertices if vertex.id in deployment.vertices for each in vertex.functions)
    return [each.uid for each in functions if each.kind is FunctionKind.SINK]
