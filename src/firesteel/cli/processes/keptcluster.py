"""`firesteel keptcluster`: the process of a kept cluster, which `firesteel run --keep-warm` starts with a Start on standard input.

A mini cluster, a REST endpoint that asks for a token, and a socket at which commands come and go, one at a time.
"""

import asyncio
import contextlib
import hashlib
import os
import secrets
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import click
import msgspec

from firesteel.assembly.client import MasterClient
from firesteel.assembly.worker import BackendFactory
from firesteel.cli.keeping import words
from firesteel.cli.keeping.places import SOCKET, check_own, forget_alone, is_own_peer, listening
from firesteel.cli.keeping.tenancy import Tenancy
from firesteel.cli.processes.foreground import end_itself, serve_in_foreground
from firesteel.client.building import BUILD_ENTRY_POINT
from firesteel.minicluster import MiniCluster
from firesteel.model import options
from firesteel.model.ids import JobID
from firesteel.model.options import Configuration
from firesteel.rest.server import RestServer, serve_rest
from firesteel.runtime.background import BackgroundTasks
from firesteel.runtime.client import CancelRefused, UnknownJob
from firesteel.runtime.directories import write_private
from firesteel.runtime.ports import TaskFailedError

ROLE = "kept-cluster"
LOOK_S = 1.0
"""Time between two looks whether its time is over."""
JOB_END_LIMIT_S = 60.0
"""A job whose command is gone is waited for so long, while the next command finds the cluster busy."""
USERS_FILE = "users.json"
BUILDS = "build-*"


class KeptCluster:
    """A cluster for one directory. `failed` is set to what it can't go on from."""

    def __init__(self, start: words.Start, end: Callable[[], None], *, backend: BackendFactory | None = None) -> None:
        """`end` is to stop this process, when its time is over. Raises ConfigurationError."""
        self.failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._place, self._directory = Path(start.place), os.getcwd()
        self._token = secrets.token_hex(16)
        closed = {
            options.REST_ADDRESS.key: "",
            options.REST_BIND_ADDRESS.key: "127.0.0.1",
            options.REST_PORT.key: "0",
            options.REST_CERTIFICATE.key: "",
            options.REST_USERS_FILE.key: str(self._place / USERS_FILE),
        }
        self._config = Configuration({options.SPARK_WARM_UP.key: "true", **start.configuration}).merged(closed)
        self._cluster, self._end = MiniCluster(self._config, backend=backend), end
        self._tenancy = Tenancy(start.identity, start.keep_s, self._now_s())
        self._tasks = BackgroundTasks()
        self._ends = contextlib.AsyncExitStack()

    def __str__(self) -> str:
        return f"{ROLE} for {self._directory}"

    async def start(self) -> None:
        """Serve. Raises OSError, and what the start of Spark raises; then nothing is left."""
        try:
            await self._start()
        except BaseException:
            await self._ends.aclose()
            raise

    async def stop(self) -> None:
        """End everything, first of all what lets others in; and remove what it has left, unless a command is doing that."""
        await self._ends.aclose()
        await asyncio.to_thread(forget_alone, self._place)

    async def _start(self) -> None:
        check_own(self._place)
        await self._cluster.start()
        self._ends.push_async_callback(self._cluster.close)
        user = {"name": "", "roles": ["submit", "operate"], "sha256": hashlib.sha256(self._token.encode()).hexdigest()}
        write_private(self._place / USERS_FILE, msgspec.json.encode({"users": [user]}).decode())
        self._rest: RestServer = serve_rest(
            MasterClient(self._cluster.master, leader_wait_s=0.0), self._config, work_dir=self._cluster.work_dir
        )
        self._ends.push_async_callback(self._rest.stop)
        await self._rest.start()
        self._ends.push_async_callback(self._tasks.close)
        server = await asyncio.start_unix_server(self._connected, sock=listening(self._place))
        self._ends.callback(server.close)
        self._ends.callback((self._place / SOCKET).unlink, missing_ok=True)
        self._tasks.start(self._watch(), "watch the time")

    async def _watch(self) -> None:
        """End when nobody has come for long, or where nobody can come any more."""
        here = os.stat(".")
        while True:
            await asyncio.sleep(LOOK_S)
            if not self._tenancy.is_used and (
                self._tenancy.left_s(self._now_s()) <= 0 or not self._is_found() or not _is_same(self._directory, here)
            ):
                self._end()
                return

    def _is_found(self) -> bool:
        return (self._place / SOCKET).is_socket()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.start(self._serve(reader, writer), "a command's connection")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, to its end."""
        try:
            if is_own_peer(writer.get_extra_info("socket")):
                await self._converse(reader, writer)
        except ConnectionError:
            pass  # the command has ended, well or not
        finally:
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await words.hear(reader, words.Opening)
        if isinstance(first, words.Look):
            left_s = self._tenancy.left_s(self._now_s())
            await words.say(writer, words.State(self._directory, self._tenancy.is_used, left_s))
            return
        refusal = self._tenancy.enter(first)
        if refusal is not None:
            await words.say(writer, refusal)
            return
        welcome = words.Welcome(self._rest.address, self._token, str(self._cluster.work_dir), self._tenancy.keep_s)
        jobs: list[JobID] = []
        work = BackgroundTasks()
        try:
            await words.say(writer, welcome)
            while True:
                request = await words.hear(reader, words.Request)
                if isinstance(request, words.Runs):
                    jobs.append(request.job_id)
                else:  # not awaited: the command may end before it does
                    work.start(self._build(request.payload, writer), "build a job")
        finally:
            self._tasks.start(self._clear(work, jobs), "clear up after a command")

    async def _build(self, payload: bytes, writer: asyncio.StreamWriter) -> None:
        answer: words.Built | words.NotBuilt
        try:
            answer = words.Built(await self._cluster.call(BUILD_ENTRY_POINT, payload))
        except TaskFailedError as error:
            answer = words.NotBuilt(error.failure)
        with contextlib.suppress(ConnectionError):
            await words.say(writer, answer)

    async def _clear(self, work: BackgroundTasks, jobs: list[JobID]) -> None:
        """A job ends with its command, as it does on a cluster of the command's own; then the next one may come."""
        try:
            await work.close()
            async with asyncio.timeout(JOB_END_LIMIT_S):
                for job_id in jobs:
                    with contextlib.suppress(UnknownJob):
                        await self._end_job(job_id)
            for left in self._cluster.work_dir.glob(BUILDS):
                await asyncio.to_thread(shutil.rmtree, left, ignore_errors=True)
        except (TimeoutError, ConnectionError) as error:
            self._fail(error)
        finally:
            self._tenancy.leave(self._now_s())

    async def _end_job(self, job_id: JobID) -> None:
        if not (await self._cluster.client.request_job(job_id)).status.is_globally_terminal:
            with contextlib.suppress(CancelRefused):  # it finishes
                await self._cluster.client.cancel_job(job_id)
            await self._cluster.client.request_job_result(job_id)

    def _fail(self, error: Exception) -> None:
        if not self.failed.done():
            self.failed.set_result(error)

    @staticmethod
    def _now_s() -> float:
        return asyncio.get_running_loop().time()


def _is_same(directory: str, former: os.stat_result) -> bool:
    """Whether the directory is still there, and not another one of its name."""
    try:
        return os.path.samestat(os.stat(directory), former)
    except OSError:
        return False


@click.command(hidden=True)
def keptcluster() -> int:
    """Run a kept cluster until its time is over."""
    start = msgspec.json.decode(sys.stdin.buffer.read(), type=words.Start)
    # Nothing that is started from here may read what only this process was told.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    return serve_in_foreground(Configuration(start.configuration), lambda _: KeptCluster(start, end_itself))
