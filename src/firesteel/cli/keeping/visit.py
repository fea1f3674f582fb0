"""A command's use of a kept cluster: found or begun, entered, left."""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import click
import msgspec
import psutil

from firesteel.adapters.inspection.rotation import open_for_appending
from firesteel.cli.background import (
    CLUSTER_VARIABLE,
    LOG_VARIABLE,
    ClusterDirectory,
    Recorded,
    end_processes,
    log_lines,
    stop_limit_s,
)
from firesteel.cli.exits import UNREACHABLE, CommandError
from firesteel.cli.keeping import words
from firesteel.cli.keeping.identity import Identity, identity, of_cluster
from firesteel.cli.keeping.machine import machine_facts
from firesteel.cli.keeping.places import SOCKET, connect, forget, locked, make_own, place_of
from firesteel.cli.keeping.tenancy import Step, next_step
from firesteel.client.building import BUILD_ENTRY_POINT
from firesteel.client.http import HttpClusterClient
from firesteel.model.configuration import duration_text
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.options import Configuration
from firesteel.runtime.ports import TaskFailedError

ROLE = "kept cluster"
PATIENCE_S = 1.0
"""The cluster is on this machine: who does not answer has ended."""
ANSWER_LIMIT_S = 10.0
"""A kept cluster must say within this time whether it may be used; one that is frozen never does."""
START_LIMIT_S, START_LOOK_S = 60.0, 0.02
NAMES_SHOWN = 3


class _Client(HttpClusterClient):
    """Says what is about to be submitted, so that it ends with this command."""

    announce: Callable[[JobID], Awaitable[None]]

    async def submit_job(self, graph: JobGraph, artifacts: Mapping[str, Path]) -> JobID:
        await self.announce(graph.job_id)
        return await super().submit_job(graph, artifacts)


class Visit:
    """A `run.Cluster`: the kept cluster, from its welcome until this is left."""

    def __init__(
        self, welcome: words.Welcome, connection: tuple[asyncio.StreamReader, asyncio.StreamWriter], log: str
    ) -> None:
        self._reader, self._writer = connection
        self._log = log
        self._job_id = ""
        """Of the job that was handed in."""
        self.client = _Client([welcome.url], token=welcome.token, patience_s=PATIENCE_S)
        self.client.announce = self._announce
        self.work_dir = Path(welcome.work_dir)
        stays = f"stays for {duration_text(round(welcome.keep_s * 1_000))} without jobs"
        self.goodbye = f"leaving the kept cluster, which {stays}"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raises CommandError when the cluster has ended before the command."""
        self._writer.close()
        await self.client.close()
        if isinstance(error, ConnectionError):
            advice = (
                f"job {self._job_id} may have written outputs: look at them before you run it again"
                if self._job_id
                else "run it again"
            )
            ended = CommandError(
                f"the kept cluster has ended in the middle of this ({error}); {advice}. Its log: {self._log}",
                UNREACHABLE,
            )
            ended.job_id = self._job_id
            raise ended from None

    async def call(self, entry_point: str, payload: bytes) -> bytes:
        """Build a job. Raises TaskFailedError."""
        assert entry_point == BUILD_ENTRY_POINT, "nothing else is done there"
        await words.say(self._writer, words.Build(payload))
        answer = await words.hear(self._reader, words.Built | words.NotBuilt)
        if isinstance(answer, words.NotBuilt):
            raise TaskFailedError(answer.failure)
        built: bytes = answer.payload
        return built

    async def _announce(self, job_id: JobID) -> None:
        self._job_id = job_id
        await words.say(self._writer, words.Runs(job_id))


async def find_or_begin(configuration: Configuration, keep_s: float | None) -> Visit | None:
    """The kept cluster of this directory, when it fits and nobody uses it; with `keep_s`, begun if need be. None when the
    command is to use a cluster of its own; the reason is said where it can surprise."""
    place = place_of(configuration, os.getcwd())
    if keep_s is None and not (place.path / SOCKET).exists():
        return None
    try:
        wanted = identity(configuration, os.environ, machine_facts())
        found = await _find(place, words.Hello(wanted, keep_s))
        if isinstance(found, Visit):
            return found
        if next_step(found, keeps=keep_s is not None) is Step.BEGIN:
            assert keep_s is not None, "only who keeps begins"
            return await _begin_alone(place, configuration, wanted, keep_s)
        if found is not None:
            _say(f"{_why(found)}: using a cluster of its own")
    except (OSError, CommandError) as error:
        _say(f"warning: no kept cluster ({error}): using a cluster of its own")
    return None


async def _begin_alone(
    place: ClusterDirectory, configuration: Configuration, wanted: Identity, keep_s: float
) -> Visit | None:
    """Begin one, unless another command has done so meanwhile."""
    hello = words.Hello(wanted, keep_s)
    async with locked(configuration):
        found = await _find(place, hello)
        if isinstance(found, Visit):
            return found
        if next_step(found, keeps=True) is Step.OWN:
            _say(f"{_why(found)}: using a cluster of its own")
            return None
        if found is not None:
            _say(f"{_why(found)}: beginning a new one")
        await end(place, configuration)
        make_own(place)
        record = _start(
            place,
            words.Start(
                configuration=dict(of_cluster(configuration)), identity=wanted, keep_s=keep_s, place=str(place.path)
            ),
        )
        try:
            return await _until_welcome(place, record, hello)
        except BaseException:
            await end(place, configuration)
            raise


async def _find(place: ClusterDirectory, hello: words.Hello) -> Visit | words.Answer | None:
    """The cluster, entered; or why not; None when nobody listens. Raises TimeoutError when who does says nothing."""
    try:
        async with asyncio.timeout(ANSWER_LIMIT_S):
            return await _greet(place, hello)
    except TimeoutError:
        raise TimeoutError(f"it has not answered within {ANSWER_LIMIT_S:g} s") from None


async def _greet(place: ClusterDirectory, hello: words.Hello) -> Visit | words.Answer | None:
    try:
        reader, writer = await connect(place.path)
    except (FileNotFoundError, ConnectionError):
        return None
    try:
        await words.say(writer, hello)
        answer = await words.hear(reader, words.Answer)
    except ConnectionError:  # it ends in this moment, or is of another version
        writer.close()
        return None
    except BaseException:
        writer.close()
        raise
    if isinstance(answer, words.Welcome):
        return Visit(answer, (reader, writer), _log_of(place))
    writer.close()
    answered: words.Answer = answer
    return answered


async def _until_welcome(place: ClusterDirectory, record: Recorded, hello: words.Hello) -> Visit:
    """Wait for a process that was started. Raises CommandError with the end of its log."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + START_LIMIT_S
    while loop.time() < until_s:
        found = await _find(place, hello)
        if isinstance(found, Visit):
            return found
        if record.process() is None:
            last = [line for line in log_lines(record) if line][-1:]
            raise CommandError(f"it has ended at once: {''.join(last) or 'without a word'}", UNREACHABLE)
        await asyncio.sleep(START_LOOK_S)
    raise CommandError(f"it has not come up within {START_LIMIT_S:g} s", UNREACHABLE)


def _start(place: ClusterDirectory, order: words.Start) -> Recorded:
    """Start its process, in a session of its own. What it is told may be secret, and passes through a pipe."""
    log = place.new_log(ROLE.partition(" ")[0])
    with open_for_appending(log) as output:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "firesteel", "keptcluster"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, CLUSTER_VARIABLE: str(place.path), LOG_VARIABLE: str(log)},
            start_new_session=True,
        )
    assert child.stdin is not None, "it is piped"
    with contextlib.suppress(BrokenPipeError), child.stdin:
        child.stdin.write(msgspec.json.encode(order))
    record = Recorded(
        role=ROLE, pid=child.pid, started=psutil.Process(child.pid).create_time(), log=str(log), where=os.getcwd()
    )
    place.write([record])
    return record


async def end(place: ClusterDirectory, configuration: Configuration) -> bool:
    """End what was begun there, and remove its files; whether it had to be killed."""
    records = place.read()
    killed = await asyncio.to_thread(end_processes, records, stop_limit_s(configuration)) if records else []
    forget(place)
    return bool(killed)


def _why(answer: words.Answer | None) -> str:
    match answer:
        case words.Busy():
            return "the kept cluster of this directory is busy with another command"
        case words.Differs(names=names):
            more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
            return f"the kept cluster of this directory was begun with another {', '.join(names[:NAMES_SHOWN])}{more}"
        case _:
            return "there is no kept cluster"


def _log_of(place: ClusterDirectory) -> str:
    return str(max(place.logs.glob("*.log"), default=place.logs))


def _say(text: str) -> None:
    click.echo(f"firesteel: {text}", err=True)
