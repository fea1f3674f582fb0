"""Directories of checkpoints: one for each attempt of each query, made from that of the attempt before.

An attempt writes in its own directory only. What a zombie still commits in an older one is read by nobody: neither can it
advance what counts, nor can two queries get at one directory. And it commits one batch at most (`snapshots.fences`).
"""

import asyncio
import contextlib
import importlib.metadata
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from time import monotonic

from firesteel.adapters.spark.streams import rivals
from firesteel.adapters.spark.streams.making import PASSING, made_directory, not_begun
from firesteel.adapters.spark.streams.notes import Origin, note_origin, sink_of
from firesteel.adapters.spark.streams.retention import retain, retain_late, save_points
from firesteel.adapters.spark.streams.rivals import attempts_of, ids_of, rival_of, take_back
from firesteel.adapters.spark.streams.snapshots.claims import settle, take
from firesteel.adapters.spark.streams.snapshots.errors import (
    SavepointGivenUp,
    SnapshotError,
    SnapshotOvertaken,
    TargetUnwritable,
)
from firesteel.adapters.spark.streams.snapshots.partials import partial_directory
from firesteel.adapters.spark.streams.snapshots.places import SavepointPlace, place_at
from firesteel.adapters.spark.streams.snapshots.points import copy_point, survey
from firesteel.adapters.spark.streams.snapshots.positions import positions
from firesteel.adapters.spark.streams.snapshots.savepoints import (
    check_spark,
    query_of,
    read_manifest,
    restore,
)
from firesteel.adapters.spark.streams.usednotes import delete_attempts, delete_checkpoints, note_used
from firesteel.adapters.storage.localdirectories import as_path
from firesteel.adapters.storage.serving import NOTHING_SET
from firesteel.core.checkpoint.beginning import Start, beginning_of
from firesteel.core.checkpoint.claims import claimed_location
from firesteel.core.checkpoint.orders import is_of_order
from firesteel.core.scheduler.backoff import effective
from firesteel.model import options
from firesteel.model.branches import branch_of
from firesteel.model.checkpoints import CheckpointOrder, CheckpointRetention, QueryPoint
from firesteel.model.failures import OVERTAKEN, FailureInfo, FailureKind
from firesteel.model.ids import JobID, derived_id
from firesteel.model.jobgraph import FunctionKind, JobGraph, JobType
from firesteel.model.options import Configuration
from firesteel.model.states import JobStatus
from firesteel.model.streams import (
    CHECKPOINTS_BELOW,
    QueriesOrder,
    QueryPosition,
    QuerySight,
    SavepointOrder,
    StateOrder,
    checkpoints_referred,
    claimed_referred,
)
from firesteel.model.tasks import TaskDeployment
from firesteel.runtime.background import BackgroundTasks
from firesteel.runtime.ports import TaskFailedError

_COPY = "copy"
"""For reading state: its name in a directory of its own."""


class CheckpointDirectories:
    """Of one worker. `results` is where workers share stored results, if they do. Its methods block."""

    def __init__(
        self, config: Configuration, results: str, work_dir: Path, storage: Mapping[str, str] = NOTHING_SET
    ) -> None:
        """`storage`: settings by which savepoints in other storages are reached."""
        self._config, self._work_dir, self._storage = config, work_dir, storage
        self._shared = Path(results) / CHECKPOINTS_BELOW if results.startswith("/") else None
        self._used: dict[JobID, Path] = {}

    def prepare(self, graph: JobGraph, deployment: TaskDeployment) -> dict[str, str]:
        """The directories of an attempt, by the uid of each sink of its region; empty for a batch pipeline. Each goes on
        where the newest attempt before it has come to. Raises TaskFailedError."""
        if graph.job_type is not JobType.STREAMING:
            return {}
        top, is_shared = self._top_of(graph)
        self._used[graph.job_id] = top
        retention = effective(self._config, graph.configuration).get_option(options.CHECKPOINT_RETENTION)
        keeps = is_shared and CheckpointRetention(retention).retains(JobStatus.FAILED)
        note_used(self._work_dir, graph.job_id, top, keeps=keeps)
        homes = _homes(top, graph, deployment)
        made: dict[str, Path] = {}
        try:
            self._make(made, graph, deployment, homes, is_shared=is_shared)
        except (TaskFailedError, SnapshotError, OSError) as error:
            raise not_begun(homes.values(), made.values(), deployment.attempt.attempt, error) from error
        take_back(top / graph.job_id, homes)
        return {uid: str(directory) for uid, directory in made.items()}

    def _make(
        self,
        made: dict[str, Path],
        graph: JobGraph,
        deployment: TaskDeployment,
        homes: dict[str, Path],
        *,
        is_shared: bool,
    ) -> None:
        """Raises TaskFailedError, SnapshotError or OSError."""
        attempt = deployment.attempt.attempt
        savepoints = {} if all(map(attempts_of, homes.values())) else self._restored(graph)  # it may be gone by now
        origin = Origin(_restore_path(graph), {uid: _own_query_id(graph, uid) for uid in savepoints})
        obsolete: list[Path] = []
        for uid, home in homes.items():
            savepoint = savepoints.get(uid)
            beginning = beginning_of(
                attempt,
                attempts_of(home),
                former=deployment.former,
                has_run=deployment.has_run,
                is_shared=is_shared,
                has_savepoint=savepoint is not None,
            )
            if beginning.start is Start.SAVEPOINT:
                assert savepoint is not None, "it is what has decided that"
                take(savepoint, graph.job_id, owns=bool(claimed_location(graph)))
            if savepoints and not attempts_of(home):
                home.mkdir(parents=True, exist_ok=True)
                note_origin(home, origin)
            made[uid] = made_directory(home, attempt, beginning, savepoint, query_id=_own_query_id(graph, uid))
            obsolete += [home / str(number) for number in beginning.obsolete]
        for directory in obsolete:
            shutil.rmtree(directory, ignore_errors=True)

    def rival(self, graph: JobGraph, deployment: TaskDeployment) -> str:
        """Why the attempt must not begin from its job's savepoint yet, in a sentence; empty if it may, which other jobs then
        may not. Raises TaskFailedError."""
        top, _ = self._top_of(graph)
        homes = _homes(top, graph, deployment)
        savepoints = {} if all(map(attempts_of, homes.values())) else self._restored(graph)
        same = {uid: path for uid, path in savepoints.items() if not _own_query_id(graph, uid)}
        begin = [uid for uid in homes if uid in same and not attempts_of(homes[uid])]
        try:
            found = rival_of(top, graph.job_id, begin, ids_of(same)) if begin else None
        except (SnapshotError, OSError) as error:
            raise not_begun(homes.values(), (), deployment.attempt.attempt, error) from error
        return found.sentence(same[found.home.name]) if found is not None else ""

    def save(self, job_id: JobID, order: SavepointOrder) -> None:
        """Write a savepoint, unless this very one was written before. Raises TaskFailedError."""
        begun = monotonic()
        top = self._used.get(job_id) or self._place_of(order.checkpoints_dir)[0]
        attempts = {uid: of.attempt for of in order.queries for uid in of.uids}
        ends = begun + order.timeout_ms / 1_000 if order.timeout_ms else float("inf")
        try:
            place = place_at(order.location, self._storage)
            if not (place.is_taken() and _is_of(place, order, job_id)):
                save_points(
                    top / job_id,
                    place,
                    attempts,
                    job_name=order.job_name,
                    vertices=order.vertices,
                    is_wanted=lambda: monotonic() < ends,
                )
        except SnapshotError as error:
            raise _refused(str(error)) from error

    @contextlib.contextmanager
    def copy_for_reading(self, order: StateOrder) -> Iterator[tuple[Path, str]]:
        """The last committed point of a query, in a directory that is removed in the end, or by the next one to read if this
        process dies, and the query's uid. Raises TaskFailedError."""
        top = self._place_of(order.checkpoints_dir)[0]
        if order.job_id:
            top = self._used.get(JobID(order.job_id), top)
        with contextlib.ExitStack() as stack:
            try:
                top.mkdir(parents=True, exist_ok=True)
                copy = stack.enter_context(partial_directory(top)) / _COPY
                uid = self._restored_to(copy, order) if order.savepoint else _copied_to(copy, top, order)
            except SnapshotError as error:
                raise _refused(str(error)) from error
            except OSError as error:
                raise _refused(str(TargetUnwritable(str(top), error))) from error
            yield copy, uid

    def look(self, job_id: JobID, order: CheckpointOrder) -> tuple[QueryPoint, ...]:
        """Where these queries, which may run, have come to. Each point is whole. Raises TaskFailedError."""
        top = self._used.get(job_id) or self._place_of(order.checkpoints_dir)[0]
        queries = {uid: str(top / job_id / uid / str(of.attempt)) for of in order.queries for uid in of.uids}
        give_up_s = time.monotonic() + order.patience_ms / 1_000
        try:
            return tuple(_point(uid, directory, give_up_s) for uid, directory in queries.items())
        except SnapshotOvertaken as error:
            failure = FailureInfo(kind=FailureKind.ENVIRONMENT, message=str(error), exception=OVERTAKEN)
            raise TaskFailedError(failure) from error
        except SnapshotError as error:
            raise _refused(str(error)) from error

    def sights(self, order: QueriesOrder) -> tuple[QuerySight, ...]:
        """These queries, which may run: where they write, and what they have read after their newest batches; or those of a
        savepoint of the job: at which batch they are. Raises TaskFailedError."""
        if order.savepoint:
            return self._saved_sights(order)
        top = self._used.get(order.job_id) or self._place_of(order.checkpoints_dir)[0]
        return tuple(_sight(uid, top / order.job_id / uid) for uid in order.uids)

    def retain(self, job_id: JobID, location: str | None) -> None:
        """Have the last checkpoint of a job that is over stay: see `retention.retain`. Raises OSError."""
        retain(self._work_dir, job_id, location, self._storage)

    def release(self, job_id: JobID, is_over: bool) -> None:
        """Delete the job's, when it is over by the word of its JobMaster: before, other workers may be at work there. Raises
        OSError when that is to be tried again."""
        if is_over:
            delete_checkpoints(self._work_dir, job_id)
            self._used.pop(job_id, None)

    def discard(self, locations: Iterable[str]) -> list[str]:
        """Delete those of jobs that are over, which may never have been here, and savepoints that jobs have claimed; locations
        that are neither are returned. Raises OSError when that is to be tried again."""
        others = []
        for location in locations:
            if (claimed := claimed_referred(location)) is not None:
                settle(claimed, self._storage)
                continue
            referred = checkpoints_referred(location)
            if referred is None:
                others.append(location)
                continue
            with contextlib.suppress(TaskFailedError):  # it had none in such a place
                delete_attempts(self._place_of(referred[1])[0] / referred[0])
        return others

    def _restored(self, graph: JobGraph) -> dict[str, SavepointPlace]:
        """The savepoint that each sink starts from, by uid. Raises TaskFailedError where one in it belongs to no sink."""
        path, configuration = _restore_path(graph), Configuration(graph.configuration)
        if not path:
            return {}
        try:
            retain_late(path, self._storage)
            place = place_at(path, self._storage)
            manifest = read_manifest(place)
            check_spark(path, manifest, importlib.metadata.version("pyspark"))
        except PASSING as error:
            raise TaskFailedError(
                FailureInfo(kind=FailureKind.ENVIRONMENT, message=str(error), unbegun=True)
            ) from error
        except SnapshotError as error:
            raise _refused(str(error)) from error
        saved = [query.uid for query in manifest.queries]
        functions = (function for vertex in graph.vertices for function in vertex.functions)
        sinks = [function.uid for function in functions if function.kind is FunctionKind.SINK]
        unclaimed = [uid for uid in saved if uid not in sinks]
        if unclaimed and not configuration.get_option(options.IGNORE_UNCLAIMED):
            raise _refused(
                f"savepoint {path} has state of {', '.join(unclaimed)}, and no sink of the pipeline has that uid (it has"
                f" {', '.join(sinks)}): give the sink its uid back, or start without that state (--allow-non-restored-state)"
            )
        return {uid: place for uid in sinks if uid in saved}

    def _restored_to(self, copy: Path, order: StateOrder) -> str:
        """Raises a SnapshotError, or TaskFailedError where there is no state."""
        place = place_at(order.savepoint, self._storage)
        uids = [query.uid for query in read_manifest(place).queries]
        uid = order.uid or (uids[0] if len(uids) == 1 else "")
        if uid not in uids:
            has = f"has no query {uid!r}" if uid else f"holds {len(uids)} queries"
            raise _refused(f"savepoint {place} {has}: name one of {', '.join(uids) or 'none'}")
        if query_of(place, uid).point.batch < 0:
            raise _refused(
                f"{uid} had committed no batch when savepoint {order.savepoint} was taken: it has no state to read"
            )
        restore(place, uid, str(copy))
        return uid

    def _saved_sights(self, order: QueriesOrder) -> tuple[QuerySight, ...]:
        """Raises TaskFailedError."""
        try:
            manifest = read_manifest(place_at(order.savepoint, self._storage))
        except SnapshotError as error:
            raise _refused(str(error)) from error
        if manifest.job_id != order.job_id:
            raise _refused(f"{order.savepoint} is a savepoint of job {manifest.job_id}, and not of {order.job_id}")
        points = ((query.uid, query.point) for query in manifest.queries)
        return tuple(
            QuerySight(uid=uid, positions=(QueryPosition(each.batch, each.commit_sha256),)) for uid, each in points
        )

    def _top_of(self, graph: JobGraph) -> tuple[Path, bool]:
        """Where the job's are, and whether other workers find them there."""
        return self._place_of(Configuration(graph.configuration).get_option(options.CHECKPOINTS_DIR))

    def _place_of(self, given: str) -> tuple[Path, bool]:
        """The same from the job's own option, which may be empty."""
        given = given or self._config.get_option(options.CHECKPOINTS_DIR)
        if not given:
            return self._shared or self._work_dir / CHECKPOINTS_BELOW, self._shared is not None
        path = as_path(given)
        if not path.is_absolute():
            raise _refused(f"{options.CHECKPOINTS_DIR.key}: {given!r} is no absolute path and no file: URI")
        return path, True


async def prepared(
    directories: CheckpointDirectories, graph: JobGraph, deployment: TaskDeployment, earlier: BackgroundTasks | None
) -> dict[str, str]:
    """What `prepare` gives, once no query of an `earlier` attempt runs on this worker. Raises TaskFailedError, also where the
    job that its savepoint is of has not ended."""
    if graph.job_type is not JobType.STREAMING:
        return {}
    if earlier is not None:
        await earlier.join()
    give_up = time.monotonic() + rivals.WAIT_SECONDS
    while rival := await asyncio.to_thread(directories.rival, graph, deployment):
        if time.monotonic() > give_up:
            raise _refused(rival)
        await asyncio.sleep(rivals.POLL_SECONDS)
    return await asyncio.to_thread(directories.prepare, graph, deployment)


def _copied_to(copy: Path, top: Path, order: StateOrder) -> str:
    """Raises a SnapshotError, or TaskFailedError where there is nothing."""
    home = top / order.job_id / order.uid
    attempts = attempts_of(home)
    if not attempts:
        raise _refused(
            f"this worker finds no checkpoints of {order.uid}: job {order.job_id} has ended, or has none yet"
        )
    copy_point(str(home / str(attempts[-1])), str(copy))
    return order.uid


def _is_of(place: SavepointPlace, order: SavepointOrder, job_id: JobID) -> bool:
    """Whether what is there is what the order wants. Raises a SnapshotError where it is what an order before has wanted."""
    manifest = read_manifest(place)
    if manifest.job_id == job_id and not is_of_order(
        {each.uid: each.attempt for each in manifest.queries}, order.queries
    ):
        raise SavepointGivenUp(order.location, "it was taken before and given up, and the queries have gone on since")
    return manifest.job_id == job_id


def _homes(top: Path, graph: JobGraph, deployment: TaskDeployment) -> dict[str, Path]:
    """Where the attempts of each query of a region have their directories, by uid."""
    mine = set(deployment.vertices)
    functions = (each for vertex in graph.vertices if vertex.id in mine for each in vertex.functions)
    return {each.uid: top / graph.job_id / each.uid for each in functions if each.kind is FunctionKind.SINK}


def _point(uid: str, directory: str, give_up_s: float) -> QueryPoint:
    surveyed = survey(directory, give_up_s)
    point = surveyed.point
    return QueryPoint(
        uid=uid,
        batch=point.batch,
        query_id=point.query_id,
        commit_sha256=point.commit_sha256,
        oldest_batch=surveyed.oldest_batch,
        size_bytes=surveyed.size_bytes,
    )


def _restore_path(graph: JobGraph) -> str:
    """The savepoint that the job starts from; empty where there is none."""
    return Configuration(graph.configuration).get_option(options.RESTORE_PATH)


def _own_query_id(graph: JobGraph, uid: str) -> str:
    """Of a branch's query; empty for one that keeps that of the savepoint. Of two queries with one id Spark stops the one that was
    there, and sinks that go by it take one's batches for the other's."""
    branch = branch_of(graph.configuration)
    return str(uuid.UUID(derived_id(graph.job_id, uid))) if branch is not None and not branch.promoted else ""


def _sight(uid: str, home: Path) -> QuerySight:
    attempts = attempts_of(home)
    found = positions(home / str(attempts[-1])) if attempts else ()
    return QuerySight(uid=uid, output=sink_of(home), positions=found)


def _refused(message: str) -> TaskFailedError:
    return TaskFailedError(FailureInfo(kind=FailureKind.NON_RECOVERABLE, message=message))
