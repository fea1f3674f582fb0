"""Sessions of a worker for what it does beside attempts: it commits to tables, and reads the state of queries."""

import contextlib
import itertools
import uuid
from collections.abc import AsyncIterator, Callable, Mapping

import msgspec

from firesteel.adapters.spark import wire
from firesteel.adapters.spark.children.keeper import SessionEnding
from firesteel.adapters.spark.jvm.pool import SparkBackend
from firesteel.model.ids import JobID, RegionAttemptID, RegionIndex

USER = "firesteel"
"""User of these sessions on a server, unless the worker was told one for all."""


class SideSession(msgspec.Struct, frozen=True):
    """A session that may be opened now, by who is given it, and that the worker closes."""

    endpoint: wire.SparkAddress
    name: wire.SessionName
    settings: Mapping[str, str]
    """Of Spark, that the worker has and the server was not started with."""


class SideSessions:
    """Of one worker. `backend` gives the one that all attempts share; `user` is who all sessions belong to, if anybody."""

    def __init__(self, backend: Callable[[], SparkBackend], user: str, settings: Mapping[str, str]) -> None:
        self._backend, self._user, self._settings = backend, user or USER, settings
        self._numbers = itertools.count()

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[SideSession]:
        """Raises TaskFailedError when there is no Spark."""
        backend, own = self._backend(), RegionAttemptID(JobID(""), RegionIndex(0), next(self._numbers))
        backend.admit(own)  # its JVM neither gives way to another nor is replaced meanwhile
        try:
            endpoint = await backend.server.endpoint()
            name, was_cut = wire.SessionName(self._user, str(uuid.uuid4())), True
            backend.hold(name)
            try:
                yield SideSession(endpoint, name, self._settings)
                was_cut = False
            finally:
                await backend.close_session(endpoint, name, SessionEnding(was_cut))
        finally:
            backend.leave(own)
