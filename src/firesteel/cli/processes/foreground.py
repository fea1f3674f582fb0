"""Runs a process of a cluster in the foreground, until it is told to stop or can't go on."""

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import click

from firesteel.adapters.inspection.rotation import keep_rotating, log_limits
from firesteel.adapters.rpc.frames import Refused
from firesteel.assembly.processlog import log_formatter
from firesteel.cli.background import LOG_VARIABLE
from firesteel.cli.exits import BAD_USAGE, BROKEN, FINISHED, UNREACHABLE, CommandError
from firesteel.cli.settings import load_configuration
from firesteel.model import options
from firesteel.model.options import Configuration, ConfigurationError
from firesteel.runtime.background import BackgroundTasks
from firesteel.runtime.ports import TaskFailedError
from firesteel.runtime.taskexecutor import RegistrationRefused

STOP_LIMITS = 3
"""A process that is stopping is ended hard after so many times `cluster.services.shutdown-timeout`: each part has one."""

_OWN_END = signal.SIGUSR1
"""By which a process says to itself what others say by SIGTERM."""

FILES_MAX = 65_536
"""Open files and connections that a process asks the system for; many systems allow 1,024 unless they are asked."""

logger = logging.getLogger("firesteel.cli")


class ClusterProcess(Protocol):
    """A master or a worker."""

    failed: asyncio.Future[Exception]
    """Set to what it can't go on from."""

    def __str__(self) -> str:
        """The process for people: what it is, and where, once it is started."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


def run_in_foreground(definitions: Sequence[str], make: Callable[[Configuration], ClusterProcess]) -> int:
    """Run what `make` makes of the command's configuration. Returns the exit code."""
    return serve_in_foreground(load_configuration(definitions), make)


def serve_in_foreground(config: Configuration, make: Callable[[Configuration], ClusterProcess]) -> int:
    """Run what `make` makes, and say on standard output when it serves. Returns the exit code."""
    log_to_stderr(config)
    _allow_many_files()
    try:
        return asyncio.run(_serve(config, make))
    except ConfigurationError as error:
        raise CommandError(str(error), BAD_USAGE) from None
    except TaskFailedError as error:
        raise CommandError(error.failure.headline(), UNREACHABLE, trace=error.failure.trace) from None
    except OSError as error:
        raise CommandError(str(error), UNREACHABLE) from None


def _allow_many_files() -> None:
    """Ask for many open files, as far as the system lets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_MAX)
    if 0 <= soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def log_to_stderr(config: Configuration) -> None:
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False  # no line says them, and they cost
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(log_formatter(config))
    root = logging.getLogger()
    root.addHandler(handler)
    logging.getLogger("firesteel").setLevel(logging.INFO)


async def _serve(config: Configuration, make: Callable[[Configuration], ClusterProcess]) -> int:
    told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    _on_signals(told)
    own_log = os.environ.pop(LOG_VARIABLE, "")
    process = make(config)
    await process.start()
    gc.freeze()  # what is there now stays: modules, options, routes
    click.echo(f"started {process}")
    rotation = BackgroundTasks()
    if own_log:
        rotation.start(keep_rotating(lambda: (Path(own_log),), log_limits(config)), "keep the log short")
    try:
        await asyncio.wait((told, process.failed), return_when=asyncio.FIRST_COMPLETED)
    finally:
        limit_s = STOP_LIMITS * config.get_option(options.SHUTDOWN_TIMEOUT) / 1000
        asyncio.get_running_loop().call_later(limit_s, _end_hard, limit_s)
        await process.stop()
        await rotation.close()
    if not process.failed.done():
        return FINISHED
    failed = process.failed.result()
    if isinstance(failed, Refused | RegistrationRefused):
        raise CommandError(f"the master can't be worked with: {failed}", UNREACHABLE)
    raise CommandError(f"it can't go on: {type(failed).__name__}: {failed}", BROKEN)


def end_itself() -> None:
    """Ask this process for its clean stop, since its time is over: whoever asks for that, too, does not press it."""
    signal.raise_signal(_OWN_END)


def _on_signals(told: asyncio.Future[None]) -> None:
    """The first signal of others asks for a clean stop, the second ends the process at once."""
    others: list[int] = []

    def stop_or_end(number: int) -> None:
        if number != _OWN_END:
            if others:
                os._exit(128 + number)
            others.append(number)
        if not told.done():
            logger.info("stopping, as told by %s", signal.Signals(number).name)
            told.set_result(None)

    for number in (signal.SIGTERM, signal.SIGINT, _OWN_END):
        asyncio.get_running_loop().add_signal_handler(number, stop_or_end, number)


def _end_hard(limit_s: float) -> None:
    logger.error("it has not stopped within %g s: ended hard", limit_s)
    os._exit(BROKEN)
