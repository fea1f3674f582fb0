"""The worker's hand on what sinks have staged: commits it or removes it, by a thread or, beyond files, by a process."""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path

import msgspec

from firesteel.adapters.blob.artifacts import ArtifactCache
from firesteel.adapters.spark.children.forkclient import ForkServer
from firesteel.adapters.spark.staged.notes import forget_staged, note_intended
from firesteel.adapters.spark.staged.references import (
    JDBC_SCHEME,
    TABLE_SCHEME,
    TWO_PHASE_SCHEME,
    VERSIONED_SCHEME,
    SinkWork,
    WrittenByUser,
    decode,
    directory_of,
    scheme_of,
)
from firesteel.adapters.spark.worker.interpreter import unpacked_interpreter
from firesteel.adapters.spark.worker.sidesessions import SideSessions
from firesteel.adapters.storage.errors import CommitRefused, TargetTaken, TargetUnreachable
from firesteel.adapters.storage.serving import NOTHING_SET
from firesteel.adapters.storage.sinks import commit_sink, remove_location
from firesteel.model.failures import FailureKind
from firesteel.model.ids import JobID
from firesteel.model.interpreters import named_interpreter
from firesteel.model.tasks import RESULT_FORMAT, Committed, SinkCommit
from firesteel.runtime.ports import TaskFailedError

logger = logging.getLogger(__name__)

_PERFORMERS = {
    JDBC_SCHEME: "firesteel.adapters.spark.sinks.jdbccommit:perform",
    TABLE_SCHEME: "firesteel.adapters.spark.sinks.tablecommit:perform",
    TWO_PHASE_SCHEME: "firesteel.adapters.spark.sinks.twophase:perform",
    VERSIONED_SCHEME: "firesteel.adapters.spark.sinks.versionedcommit:perform",
}


class SinkOutput:
    """Outputs of all jobs of one worker. Remembers what their attempts have staged until the job is released."""

    def __init__(
        self,
        forks: ForkServer,
        artifacts: ArtifactCache,
        intended: Path,
        sessions: SideSessions,
        storage: Mapping[str, str] = NOTHING_SET,
    ) -> None:
        self._forks, self._artifacts, self._intended, self._sessions = forks, artifacts, intended, sessions
        self._storage = storage
        self._staged: dict[JobID, dict[str, None]] = {}
        self._secrets: dict[JobID, dict[str, Mapping[str, str]]] = {}
        self._users = itertools.count(1)

    def note(self, job_id: JobID, staged: Mapping[str, Mapping[str, str]]) -> None:
        """An attempt has staged, or was about to; with the secrets that each takes."""
        if staged:
            self._staged.setdefault(job_id, {}).update(dict.fromkeys(staged))
            self._secrets.setdefault(job_id, {}).update(staged)

    async def commit(self, commit: SinkCommit) -> Committed:
        """Make it visible; idempotent. Raises TaskFailedError."""
        if commit.format == RESULT_FORMAT:
            return Committed()  # its rows are where they belong since their attempt finished
        note = await asyncio.to_thread(note_intended, self._intended, commit)
        try:
            return await self._commit(commit, scheme_of(commit.staging))
        finally:
            note.unlink(missing_ok=True)

    async def _commit(self, commit: SinkCommit, scheme: str) -> Committed:
        if not scheme:
            return await asyncio.to_thread(commit_sink, commit, self._storage)
        parts = {"references": commit.stagings, "commit_id": commit.commit_id, "mode": commit.mode}
        try:
            async with self._work(commit.staging) as work:
                done = await self._perform(msgspec.structs.replace(work, **parts), scheme)
        except TaskFailedError as error:
            name = error.failure.exception
            is_refused = name in (CommitRefused.__name__, TargetTaken.__name__)
            failure = msgspec.structs.replace(
                error.failure,
                kind=FailureKind.NON_RECOVERABLE if is_refused else FailureKind.ENVIRONMENT,
                vertex=commit.function,
                may_pass=name == TargetUnreachable.__name__,
                stays=name == TargetTaken.__name__,
            )
            raise TaskFailedError(failure) from error
        for staged in self._staged.values():
            for reference in commit.stagings:
                staged.pop(reference, None)
        return msgspec.json.decode(done, type=Committed)

    async def _perform(self, work: SinkWork, scheme: str) -> bytes:
        """In a process, with a session of Spark where that takes one. Raises TaskFailedError."""
        async with contextlib.AsyncExitStack() as stack:
            if scheme in (TABLE_SCHEME, VERSIONED_SCHEME):
                side = await stack.enter_async_context(self._sessions.open())
                work = msgspec.structs.replace(work, endpoint=side.endpoint, session=side.name, settings=side.settings)
            return await self._forks.call(_PERFORMERS[scheme], msgspec.json.encode(work))

    async def discard(self, locations: Iterable[str]) -> None:
        """Remove what is staged, and directories of stored results."""
        locations = [directory_of(location) for location in locations]
        references = [location for location in locations if scheme_of(location)]
        await asyncio.to_thread(self._remove_all, [location for location in locations if not scheme_of(location)])
        for reference in references:
            await self._remove(reference)

    async def release(self, job_id: JobID, *, removed: str = "") -> None:
        """The job is over: remove what its attempts here have left, and forget its secrets. What lies below `removed` is
        gone."""
        # A user's sink is not asked to undo here what another worker may have committed: the master says what was not.
        mine = [each for each in self._staged.get(job_id, ()) if scheme_of(each) != TWO_PHASE_SCHEME]
        await self.discard([each for each in mine if not removed or not each.startswith(f"{removed}/")])
        await asyncio.to_thread(forget_staged, self._intended.parent, job_id)
        self._staged.pop(job_id, None)
        self._secrets.pop(job_id, None)

    async def _remove(self, reference: str) -> None:
        """Remove what a reference names; what can't be removed now is told, and must not keep the job."""
        try:
            async with self._work(reference) as work:
                await self._forks.call(_PERFORMERS[scheme_of(reference)], msgspec.json.encode(work))
        except TaskFailedError as error:
            logger.warning("what a sink had staged was not removed: %s", error.failure.message)

    @contextlib.asynccontextmanager
    async def _work(self, reference: str) -> AsyncIterator[SinkWork]:
        """The removal of what a reference names, with what a user's own sink is made of. Raises TaskFailedError."""
        work = SinkWork(references=(reference,), secrets=self._secrets_of(reference))
        if scheme_of(reference) != TWO_PHASE_SCHEME:
            yield work
            return
        written = decode(reference, WrittenByUser)
        interpreter = named_interpreter(written.python_executable, written.artifacts)
        user = JobID(f"{written.job_id}-sink-{next(self._users)}")  # the job may be released here meanwhile
        try:
            code = await self._artifacts.use(user, written.artifacts)
            yield msgspec.structs.replace(
                work,
                code=code.directories,
                interpreter=unpacked_interpreter(interpreter, code),
                python_executable=written.python_executable,
            )
        finally:
            await self._artifacts.release(user)

    def _secrets_of(self, reference: str) -> Mapping[str, str]:
        return next((known[reference] for known in self._secrets.values() if reference in known), {})

    def _remove_all(self, locations: list[str]) -> None:
        for location in locations:
            try:
                remove_location(location, self._storage)
            except TaskFailedError as error:
                logger.warning("what an attempt had written was not removed: %s", error.failure.message)
