"""`firesteel application`: a master for one job."""

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import click

from firesteel.cli.exits import BAD_USAGE, UNREACHABLE, CommandError
from firesteel.cli.java import java_problem
from firesteel.cli.jobs.run import job_options, run_command
from firesteel.cli.jobs.scriptarguments import JobCommand
from firesteel.client.building import call_in_process
from firesteel.model import options
from firesteel.model.options import Configuration

PR_SET_PDEATHSIG = 1
WORKERS_AWAITED = "5 min"
"""Time that the job waits for workers, unless the option is set."""
WORKER_STOP_S = 5.0
"""Time beyond the limits that a worker has for its own end."""


@click.command(cls=JobCommand)
@job_options
@click.option(
    "--taskmanagers", type=click.IntRange(min=0), default=0, help="Workers to start on this host; 0 by default."
)
def application(taskmanagers: int, **arguments: Any) -> int:
    """Run a master for the one job of the pipeline of FILE, and end with the job.

    For containers and Kubernetes: workers (`firesteel taskmanager`) join it at jobmanager.rpc.address and
    jobmanager.rpc.port, before or after. The pipeline's code runs in processes of its own. SIGTERM cancels
    the job. Exit codes are those of `firesteel run`.
    """
    if arguments["master"]:
        raise CommandError(
            "application is a master itself; leave --master out, or `firesteel run` the job there", BAD_USAGE
        )

    def opener(config: Configuration) -> Application:
        return Application(config.merged({options.REST_ADDRESS.key: ""}), taskmanagers, arguments["definitions"])

    return run_command(opener=opener, **arguments)


class Application:
    """A master in this process and workers beside it, as a cluster that `run` can use."""

    goodbye = "closing the cluster"

    def __init__(self, config: Configuration, taskmanagers: int, definitions: Sequence[str]) -> None:
        """Raises CommandError, or ConfigurationError."""
        if config.get_option(options.HA_TYPE) != "none":
            text = "application keeps its one job in memory: set high-availability.type to none, or use `firesteel jobmanager`"
            raise CommandError(text, BAD_USAGE)
        if taskmanagers and (problem := java_problem()):
            raise CommandError(problem, UNREACHABLE)
        from firesteel.assembly.jobmanager import JobManager

        self._config = Configuration({options.RESOURCE_START_UP_TIME.key: WORKERS_AWAITED, **config})
        self._count, self._definitions = taskmanagers, definitions
        self._master = JobManager(self._config, shut_down=lambda: signal.raise_signal(signal.SIGTERM))
        self._ends = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            self.work_dir = Path(self._ends.enter_context(tempfile.TemporaryDirectory(prefix="firesteel-")))
            await self._master.start()
            self._ends.push_async_callback(self._master.stop)
            self.client = self._master.client
            click.echo(f"started {self._master}", err=True)
            for _ in range(self._count):
                await self._start_worker()
            self._ends.push_async_callback(self._master.master.settle)
        except BaseException:
            await self._ends.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._ends.aclose()

    async def call(self, entry_point: str, payload: bytes) -> bytes:
        return await call_in_process(self.work_dir, entry_point, payload)

    async def _start_worker(self) -> None:
        """Start a worker that ends with this process, also when that is killed."""
        port = options.JOBMANAGER_PORT.key
        given = [each for each in self._definitions if each.partition("=")[0].strip() != port]
        arguments = [part for each in (*given, f"{port}={self._master.port}") for part in ("-D", each)]
        worker = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "firesteel", "taskmanager", *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=sys.stderr,
            start_new_session=True,  # Ctrl-C is for the master
            preexec_fn=_end_with_parent,
        )
        self._ends.push_async_callback(self._end_worker, worker)

    async def _end_worker(self, worker: asyncio.subprocess.Process) -> None:
        with contextlib.suppress(ProcessLookupError):
            worker.terminate()
        limit_s = 3 * self._config.get_option(options.SHUTDOWN_TIMEOUT) / 1000 + WORKER_STOP_S
        try:
            async with asyncio.timeout(limit_s):
                await worker.wait()
        except TimeoutError:
            os.killpg(worker.pid, signal.SIGKILL)
            await worker.wait()


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
