"""What a worker does for the points of queries: it looks where they have come to, and writes savepoints of them."""

from collections.abc import Callable, Iterator
from functools import partial

from firesteel.core.checkpoint.beginning import Missing, missing_file
from firesteel.core.checkpoint.orders import is_of_order
from firesteel.model.checkpoints import CheckpointOrder, QueryPoint
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import JobID
from firesteel.model.streams import SavepointOrder, SavepointQueries
from firesteel.testing.simulation.cores.world import World
from firesteel.testing.simulation.streams.directories import OFFSETS, Directory, needed
from firesteel.testing.simulation.streams.storage import SavedJob, SavedQuery, StreamStorage

LOOK_MS_MAX = 200
FILE_MS_MAX = 60
SLOW_FILE_MS_MAX = 4_000
"""A file takes this long at most where storage is slow."""


class SavingFailed(Exception):
    """Why a savepoint or a checkpoint can't be."""


class Saving:
    """Of one worker, which may die at any time: then nothing of what it has begun goes on."""

    def __init__(self, world: World, storage: StreamStorage, worker: str, is_dead: Callable[[], bool]) -> None:
        self.world, self.storage, self.worker, self._is_dead = world, storage, worker, is_dead

    # ── checkpoints ──────────────────────────────────────────────────────────────────────────
    def look(
        self,
        job_id: JobID,
        order: CheckpointOrder,
        answer: Callable[[tuple[QueryPoint, ...], FailureInfo | None], None],
    ) -> None:
        """Find where queries have come to."""

        def told() -> None:
            try:
                if self.world.mishaps.strikes("look fails", self.world.faults.savepoint_failure / 4):
                    raise SavingFailed("the storage does not answer")
                points = tuple(self._point(job_id, of, uid) for of in order.queries for uid in of.uids)
            except SavingFailed as error:
                self.storage.unseen[job_id] = None
                answer((), failure(error))
            else:
                answer(points, None)

        self.world.after(self.world.stream("look").randint(0, LOOK_MS_MAX), told)

    def _point(self, job_id: JobID, of: SavepointQueries, uid: str) -> QueryPoint:
        directory = self._directory(job_id, of, uid)
        batch = directory.last
        point = QueryPoint(
            uid=uid,
            batch=batch,
            query_id=directory.query_id,
            commit_sha256=str(directory.line.get(batch, "")),
            oldest_batch=directory.oldest,
            size_bytes=len(directory.files),
        )
        self.storage.looked[job_id, uid, point.commit_sha256] = directory.is_whole(batch)
        return point

    def _directory(self, job_id: JobID, of: SavepointQueries, uid: str) -> Directory:
        found = self.storage.home(self.worker, job_id, uid).get(of.attempt)
        if found is None:
            raise SavingFailed(f"the checkpoints of {uid} are not here")
        return found

    # ── savepoints ───────────────────────────────────────────────────────────────────────────
    def save(self, job_id: JobID, order: SavepointOrder, answer: Callable[[FailureInfo | None], None]) -> None:
        """Write a savepoint, unless this very one was written before."""
        known = self.storage.savepoints.get(order.location)
        if known is not None and known.manifest and known.job_id == job_id:
            held = {uid: query.attempt for uid, query in known.queries.items()}
            given_up = SavingFailed("there is a savepoint that was given up")
            self.world.after(1, partial(answer, None if is_of_order(held, order.queries) else failure(given_up)))
        else:
            self._go_on(self._writing(job_id, order), answer)

    def _go_on(self, steps: Iterator[int], answer: Callable[[FailureInfo | None], None]) -> None:
        if self._is_dead():
            return
        try:
            delay_ms = next(steps, None)
        except SavingFailed as error:
            answer(failure(error))
            return
        if delay_ms is None:
            answer(None)
        else:
            self.world.after(delay_ms, partial(self._go_on, steps, answer))

    def _writing(self, job_id: JobID, order: SavepointOrder) -> Iterator[int]:
        """In a hidden directory that gets its name when it is whole; who fails or dies leaves nothing that has one."""
        made, begun_ms = SavedJob(job_id), self.world.now_ms
        for of in order.queries:
            for uid in of.uids:
                yield from self._copy(made, job_id, of, uid)
        made.manifest = tuple(made.queries)
        yield self._file_ms()
        if order.timeout_ms and self.world.now_ms - begun_ms >= order.timeout_ms:
            raise SavingFailed("it took too long, and was given up")
        yield from self._publish(made, order.location)

    def _publish(self, made: SavedJob, location: str) -> Iterator[int]:
        self._write()
        if location in self.storage.savepoints:
            raise SavingFailed("there is something where the savepoint is to be")
        self.storage.savepoints[location] = made
        yield self._file_ms()

    def _copy(self, made: SavedJob, job_id: JobID, of: SavepointQueries, uid: str) -> Iterator[int]:
        """The last committed point, or the next one when retention has overtaken it."""
        copies = 0
        while True:
            directory = self._directory(job_id, of, uid)
            batch, copies = directory.last, copies + 1
            line = {number: commit for number, commit in directory.line.items() if number <= batch}
            wanted = tuple(needed(batch)) if batch >= 0 else ()
            copied = made.queries[uid] = SavedQuery(directory.query_id, batch, {}, line, wanted, of.attempt)
            for file in wanted:
                yield self._file_ms()
                self._write()
                if file not in directory.files:
                    break
                copied.files[file] = directory.files[file]
            else:
                planned = OFFSETS, batch + 1
                if planned in directory.files and directory.last == batch:
                    copied.files[planned] = directory.files[planned]
                return
            match missing_file(batch, directory.last, copies):
                case Missing.DAMAGED if not directory.is_deleted:
                    raise AssertionError(f"the last committed point of {uid} lacks {file}")
                case Missing.DAMAGED | Missing.TOO_OFTEN:
                    raise SavingFailed(f"the point after batch {batch} of {uid} could not be copied")
                case _:
                    pass  # retention has overtaken it

    def _write(self) -> None:
        if self.world.mishaps.strikes("savepoint fails", self.world.faults.savepoint_failure / 8):
            raise SavingFailed("the disk is full")

    def _file_ms(self) -> int:
        if self.world.mishaps.sometimes("copy-slow"):
            return self.world.stream("copy-slow:by").randint(1, SLOW_FILE_MS_MAX)
        return self.world.stream("copy").randint(0, FILE_MS_MAX)


def failure(error: SavingFailed) -> FailureInfo:
    return FailureInfo(kind=FailureKind.ENVIRONMENT, message=str(error))
