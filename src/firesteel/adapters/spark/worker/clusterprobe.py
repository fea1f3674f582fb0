"""Whether Spark is of use for this worker, where that does not follow from its start: tried by a small query, before slots
are offered. Executors of a cluster may lack much; a JVM here may lack jars for the storage that results are in."""

import asyncio
import contextlib
import logging
import platform
import shutil
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from firesteel.adapters.spark import calls, wire
from firesteel.adapters.spark.children.forkclient import ForkServer
from firesteel.adapters.spark.children.keeper import SessionEnding
from firesteel.adapters.spark.clusters.foreign import ForeignServer
from firesteel.adapters.spark.clusters.masters import SparkMaster
from firesteel.adapters.spark.jvm.pool import SparkBackend
from firesteel.adapters.spark.worker.sidesessions import USER
from firesteel.adapters.storage.directories import Directories
from firesteel.adapters.storage.localdirectories import LocalDirectories, as_path
from firesteel.adapters.storage.serving import directories_at
from firesteel.model import options
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.runtime.background import BackgroundTasks
from firesteel.runtime.ports import TaskFailedError

logger = logging.getLogger(__name__)

ENTRY_POINT = "firesteel.adapters.spark.task.clusterprobe:probe"
FIRST_CALL = "firesteel.adapters.spark.task.servercall:call"
EXECUTORS_S = 20.0
"""Time that a cluster has to give an executor. It may have more: Spark itself has to say that it waits."""
QUERY_S = 180.0
"""Time that the query may take with one: a JVM and a Python start first, perhaps on a busy machine."""
_LOOK_S = 1.0
_PLACE = "_firesteel_probe-"
FORGOTTEN_S = 3_600.0
"""A directory of a probe that is so old is that of a worker that was killed."""
CAUSE_MAX_CHARS = 500
T = TypeVar("T")


class ClusterProbe:
    """Tries a backend; None where there is none before the first job."""

    def __init__(self, master: SparkMaster, backend: SparkBackend | None, forks: ForkServer) -> None:
        self._master, self._ready, self._forks = master, backend, forks
        self._who = "Spark of this worker" if master.is_local else f"executors of {master.shown}"
        self._tasks = BackgroundTasks(lambda error: None)  # who waits for it hears of it

    @property
    def _backend(self) -> SparkBackend:
        assert self._ready is not None, "nothing is tried without one"
        return self._ready

    async def run(self, where: str, storage: Mapping[str, str], settings: Mapping[str, str]) -> None:
        """Have executors write at the location `where`, in a session with these settings, and look for it. Raises
        TaskFailedError (NON_RECOVERABLE) with what keeps them from being of use.

        A cluster that is full has no executor to try: then it is only said, and jobs wait for theirs.
        """
        if self._master.is_foreign and "://" in where:
            raise refused(
                f"{self._master.shown} is no server of this worker: {options.RESULTS_DIR.key} is to be a directory that both"
                f" share, not {where}"
            )
        if self._ready is None:
            logger.info("there is no driver before the first job: %s can't be tried", self._who)
        else:
            await self._try(where, storage, settings)

    async def _try(self, where: str, storage: Mapping[str, str], settings: Mapping[str, str]) -> None:
        try:
            endpoint = await self._endpoint()
        except TimeoutError:
            await self._tasks.close()
            text = "for %g s %s; nothing is tried, and jobs wait for it"
            logger.warning(text, EXECUTORS_S, self._queued())
            return
        if self._master.is_foreign:
            await self._call(endpoint)
        session = wire.SessionName(self._master.user or USER, str(uuid.uuid4()))
        place = f"{where}/{_PLACE}{uuid.uuid4().hex}"
        order = calls.ProbeCluster(endpoint=endpoint, session=session, place=place, settings=dict(settings))
        directories = await asyncio.to_thread(directories_at, where, dict(storage))
        if isinstance(directories, LocalDirectories):
            await asyncio.to_thread(remove_forgotten, as_path(where), time.time())
        begun, was_cut = time.monotonic(), True
        self._backend.hold(session)
        try:
            answer = await self._answer(order)
            was_cut = False
            if isinstance(self._backend.server, ForeignServer):
                self._backend.server.application_id = answer.application
            seen = 0 if answer.error else len(await asyncio.to_thread(directories.files, place))
            self._judge(answer, where, seen)
            await asyncio.to_thread(_remove, directories, place)
            text = "%s can be used: tried within %.1f s on %s"
            logger.info(text, self._who, time.monotonic() - begun, ", ".join(answer.hosts))
        except TimeoutError:
            self._note_silence()
        finally:
            await self._tasks.close()
            await self._backend.close_session(endpoint, session, SessionEnding(was_cut))
            with contextlib.suppress(OSError):
                await asyncio.to_thread(directories.remove, place)

    async def _endpoint(self) -> wire.SparkAddress:
        """The driver's address. Its first failure is told at once: nobody waits for a second start yet."""
        work = self._backend.server.endpoint()
        return await self._unless_it_dies(work, lambda taken_s: taken_s >= EXECUTORS_S and bool(self._queued()))

    async def _call(self, endpoint: wire.SparkAddress) -> None:
        """Raises TaskFailedError when calls do not get to that server: before a session is held, which could not be closed."""
        if obstacle := (await self._forks.call(FIRST_CALL, msgspec.json.encode(endpoint))).decode():
            raise refused(f"{self._master.shown} can't be used from {platform.node()}: it {obstacle}")

    async def _answer(self, order: calls.ProbeCluster) -> calls.ClusterProbed:
        asked = self._forks.call(ENTRY_POINT, msgspec.json.encode(order))
        return msgspec.json.decode(await self._unless_it_dies(asked, self._had_its_time), type=calls.ClusterProbed)

    async def _unless_it_dies(self, work: Coroutine[Any, Any, T], is_enough: Callable[[float], bool]) -> T:
        """What comes of the work. Raises TaskFailedError when the backend ends before; TimeoutError when it has taken so many
        seconds that it is enough."""
        death, begun = self._backend.server.death(), time.monotonic()
        doing: asyncio.Task[T] = self._tasks.start(work, "cluster-probe")
        while not doing.done() and not death.done():
            await asyncio.wait((doing, death), return_when=asyncio.FIRST_COMPLETED, timeout=_LOOK_S)
            if not doing.done() and is_enough(time.monotonic() - begun):
                raise TimeoutError
        if doing.done():
            return await doing
        raise TaskFailedError(driver_death(death.result(), self._master))

    def _had_its_time(self, taken_s: float) -> bool:
        story = self._backend.server.story
        return taken_s >= (EXECUTORS_S if story is not None and story.gives_none else QUERY_S)

    def _queued(self) -> str:
        story = self._backend.server.story
        return story.queued if story is not None else ""

    def _judge(self, answer: calls.ClusterProbed, where: str, written: int) -> None:
        story = self._backend.server.story
        if answer.error and story is not None and story.fatal:  # the query ended with its driver
            raise refused(story.fatal)
        if answer.error:
            where = f" to store results in {where} ({options.RESULTS_DIR.key})" if "://" in where else ""
            raise refused(f"{self._who} can't be used{where}: {answer.error}")
        if written < answer.files:
            raise refused(
                f"{self._who} ({', '.join(answer.hosts)}) can't be used: of {answer.files} files that were written in"
                f" {where} this worker sees {written}; set"
                f" {options.RESULTS_DIR.key} to a directory, a bucket or a path in HDFS that all of them share"
            )

    def _note_silence(self) -> None:
        story = self._backend.server.story
        if story is None or not story.gives_none:
            logger.warning("a small query took %s more than %g s: nothing else is tried", self._who, QUERY_S)
        else:
            text = "for %g s no executor has come, and none is tried; jobs wait for %s"
            logger.warning(text, EXECUTORS_S, story.waiting_words())


def driver_death(death: FailureInfo, master: SparkMaster) -> FailureInfo:
    """Why there is no driver, in a sentence that names the cluster, if there is one."""
    message = death.message
    if master.is_local or master.shown not in message:
        lines = [line.strip() for line in death.trace.splitlines() if line.strip()]
        raised = [line for line in lines if "Exception" in line or "Error" in line]
        cause = (raised or lines[-1:] or [message])[0][:CAUSE_MAX_CHARS]
        who = "Spark" if master.is_local else f"the driver for {master.shown}"
        message = f"{who} did not start on {platform.node()}: {cause}"
    return msgspec.structs.replace(death, message=message, kind=FailureKind.NON_RECOVERABLE)


def remove_forgotten(where: Path, now_s: float) -> None:
    """Remove what the probes of workers that were killed have left there."""
    for place in where.glob(f"{_PLACE}*"):
        with contextlib.suppress(OSError):  # another worker may be at it, or it is another user's
            if now_s - place.stat().st_mtime > FORGOTTEN_S:
                shutil.rmtree(place)


def _remove(directories: Directories, place: str) -> None:
    """Raises TaskFailedError: what can't be removed now can't be removed after a job."""
    try:
        directories.remove(place)
    except OSError as error:
        raise refused(
            f"what executors write in {place} can't be deleted by this worker: {error}; run both as one user, or set"
            f" {options.RESULTS_DIR.key} to a bucket or a path in HDFS"
        ) from None


def refused(message: str) -> TaskFailedError:
    return TaskFailedError(FailureInfo(kind=FailureKind.NON_RECOVERABLE, message=message))
