"""`firesteel run`: build a pipeline's job, submit it, follow it to its end."""

import asyncio
import contextlib
import functools
import logging
import os
import tempfile
import traceback
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

import click
import msgspec

from firesteel.cli.exits import BAD_USAGE, FINISHED, INTERRUPTED, UNREACHABLE, CommandError
from firesteel.cli.following.endings import print_end
from firesteel.cli.following.follow import exit_code
from firesteel.cli.following.interrupts import Interrupts
from firesteel.cli.following.live import JobDisplay, open_display
from firesteel.cli.following.output import ScriptOutput
from firesteel.cli.following.prints import job_prints
from firesteel.cli.following.watch import End, Watch
from firesteel.cli.java import java_problem
from firesteel.cli.jobs.attachments import attachment_options, taken_attachments, taken_interpreter
from firesteel.cli.jobs.restoring import restoring_options, taken_restoring
from firesteel.cli.jobs.scriptarguments import KEEP_WARM, RunCommand
from firesteel.cli.jobs.submission import job_id_of, job_id_option, may_be_there, submit
from firesteel.cli.logs import open_log_file
from firesteel.cli.settings import is_elsewhere, load_configuration, named_values, pairs, time_ms
from firesteel.client.building import BuildProcessFailed
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import CLIENT_DIRECTORY_VARIABLE
from firesteel.model.options import (
    EXECUTION_ATTACHED,
    EXECUTION_ON,
    JOB_PRIORITY,
    JOB_QUEUE,
    JOB_TIMEOUT,
    REST_ADDRESS,
    SHUTDOWN_ON_ATTACHED_EXIT,
    Configuration,
    ConfigurationError,
)
from firesteel.model.states import JobStatus
from firesteel.pipeline.attachments import Attachments
from firesteel.pipeline.build import BuildFailure, BuildRequest, BuiltJob, build_in_child, decode_build_reply
from firesteel.pipeline.scripts import is_script
from firesteel.runtime.client import ClusterOperations
from firesteel.runtime.ports import TaskFailedError

BUILD_ENTRY_POINT = "firesteel.pipeline.build:build_in_child"

log = logging.getLogger("firesteel.cli")


class Cluster(Protocol):
    """A cluster that can also run a function in a process that has PySpark loaded."""

    goodbye: str
    """What is said when it is left; empty for nothing."""

    @property
    def client(self) -> ClusterOperations: ...

    @property
    def work_dir(self) -> Path:
        """Directory for its files; it goes with the cluster, also when that is killed."""

    async def call(self, entry_point: str, payload: bytes) -> bytes: ...


Opener = Callable[[Configuration], AbstractAsyncContextManager[Cluster]]


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a job that the command line asks for."""

    file: str
    arguments: tuple[str, ...] = ()
    """Arguments of a plain script."""
    parameters: dict[str, str]
    flags: tuple[str, ...] = ()
    """Parameters that are true."""
    configuration: Configuration
    parallelism: int | None = None
    overrides: dict[str, str] = {}
    name: str = ""
    job_id: str = ""
    """Id of the caller's own; empty for a new one."""
    attachments: Attachments = Attachments()
    elsewhere: bool = False
    """The cluster is another process, and the job's life does not end with this one's."""
    detach: bool = False
    as_json: bool = False
    keep_warm_s: float | None = None
    """Time for which a cluster of its own is to stay; None for not at all."""

    @property
    def is_script(self) -> bool:
        return is_script(self.file)


def job_options(command: Callable[..., int]) -> Callable[..., int]:
    """Options of the commands that make a job of a file."""
    for option in reversed(_JOB_OPTIONS):
        command = option(command)
    return attachment_options(command)


_JOB_OPTIONS = (
    click.argument("file"),
    click.argument("arguments", nargs=-1, type=click.UNPROCESSED),
    click.option(
        "--param",
        "-p",
        "parameters",
        multiple=True,
        metavar="NAME=VALUE",
        help="A job parameter; NAME alone sets a bool.",
    ),
    click.option("--parallelism", type=click.IntRange(min=1), help="The most subtasks of functions that state none."),
    click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="FUNCTION.OPTION=VALUE",
        help="An option of a function, for this job.",
    ),
    click.option("-D", "definitions", multiple=True, metavar="KEY=VALUE", help="A configuration option, or spark.*."),
    click.option("--name", default="", help="Name of the job; the pipeline's by default."),
    job_id_option,
    click.option("--priority", type=int, help="Jobs of higher priority get slots first; 0 by default."),
    click.option("--queue", help="The queue it waits in."),
    click.option("--on", metavar="LABELS", help="Run it on workers with these labels, like big or big,gpu."),
    restoring_options,
    click.option("--timeout", metavar="TIME", help='The job fails after this time, like "90 s" or "10 min".'),
    click.option(
        "--master", default="", metavar="ADDRESS[,ADDRESS...]", help="Run it there: HOST:PORT of a master's REST."
    ),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
    click.option("--verbose", "-v", is_flag=True, help="Print full traces."),
)


@click.command(cls=RunCommand)
@job_options
@click.option(
    KEEP_WARM,
    "keep_warm",
    metavar="[TIME]",
    help='The cluster of its own stays, for the next run in this directory, until it has had no job for TIME, like "30 min".',
)
@click.option("--detach", is_flag=True, help="Print the job's id once it is safe with the master, and leave it.")
@click.option(
    "--shutdown-on-attached-exit",
    "-sae",
    "ends_with_client",
    is_flag=True,
    help="The job is cancelled when this command is gone, also when it was killed.",
)
def run(**arguments: Any) -> int:
    """Run the pipeline of FILE (FILE:NAME when it has several), or FILE as a plain script, and follow the job.

    A plain PySpark script is a file without an import of firesteel: it gets ARGUMENTS, all that follows its name,
    what it prints is printed here, and its exit code is this command's.

    On a cluster of its own, on the one that a former run in this directory has left behind (--keep-warm), or on the one
    that --master or rest.address name. The result goes to
    standard output, everything else to standard error. Ctrl-C cancels the job; pressed again, its end is not waited for.
    """
    return run_command(**arguments)


def run_command(
    parameters: Sequence[str],
    definitions: Sequence[str],
    timeout: str | None,
    opener: Opener | None = None,
    **rest: Any,
) -> int:
    """Build and run a job as the options say, on what `opener` opens: by default on what `open_cluster` does."""
    as_json, verbose = rest["as_json"], rest.pop("verbose")
    try:
        options = _taken_options(parameters, definitions, timeout, has_opener=opener is not None, **rest)
    except CommandError as error:
        if as_json:
            click.echo(_rejected(error))
        raise
    log_file = open_log_file(options.configuration)
    os.environ.setdefault(CLIENT_DIRECTORY_VARIABLE, os.getcwd())
    try:
        done = asyncio.run(run_job(options, opener) if opener else run_job_somewhere(options))
    except CommandError as error:
        _report(error.message, error.trace, log_file, verbose)
        if as_json:
            click.echo(_rejected(error))
        return error.code
    if isinstance(done, End):
        return _finish(done, options, log_file, verbose=verbose)
    click.echo(msgspec.json.encode({"status": "SUBMITTED", "job_id": done}) if as_json else done)
    return FINISHED


def _taken_options(
    parameters: Sequence[str], definitions: Sequence[str], timeout: str | None, *, has_opener: bool, **rest: Any
) -> RunOptions:
    """Raises CommandError."""
    keep_warm = rest.pop("keep_warm", None)
    wishes = {
        JOB_PRIORITY.key: rest.pop("priority"),
        JOB_QUEUE.key: rest.pop("queue"),
        EXECUTION_ON.key: rest.pop("on"),
        **taken_restoring(rest),
        **taken_interpreter(rest),
        JOB_TIMEOUT.key: str(time_ms("--timeout", timeout)) if timeout is not None else None,
        EXECUTION_ATTACHED.key: "false" if rest.pop("detach", False) else None,
        SHUTDOWN_ON_ATTACHED_EXIT.key: "true" if rest.pop("ends_with_client", False) else None,
    }
    configuration = load_configuration(definitions, rest.pop("master")).merged(
        {key: str(value) for key, value in wishes.items() if value is not None}
    )
    values, flags = named_values(parameters)
    return RunOptions(
        file=os.path.join(os.getcwd(), rest.pop("file")),
        parameters=values,
        flags=flags,
        overrides=pairs(rest.pop("overrides"), "--set"),
        attachments=taken_attachments(rest),
        configuration=configuration,
        job_id="" if (given := rest.pop("job_id")) is None else job_id_of(given),
        elsewhere=not has_opener and is_elsewhere(configuration, definitions),
        detach=not has_opener and not configuration.get_option(EXECUTION_ATTACHED),
        keep_warm_s=time_ms(KEEP_WARM, keep_warm) / 1_000 if keep_warm is not None else None,
        **rest,
    )


def _rejected(error: CommandError) -> bytes:
    known = {"status": "UNKNOWN", "job_id": error.job_id} if error.job_id else {"status": "REJECTED"}
    return msgspec.json.encode({**known, "error": error.message, "location": error.location})


async def run_job_somewhere(options: RunOptions) -> End | JobID:
    """Run the job on the cluster that is configured, or on one of its own. Raises CommandError."""
    keep_s = options.keep_warm_s
    if keep_s is not None and (options.elsewhere or keep_s <= 0):
        why = (
            "it is for a cluster of this command's own, and another one is named" if keep_s else "write a time above 0"
        )
        raise CommandError(f"{KEEP_WARM}: {why}", BAD_USAGE)
    if options.detach and not options.elsewhere:
        raise CommandError("a cluster of its own ends with the command: name another one with --master", BAD_USAGE)
    if not options.elsewhere and (problem := java_problem()):
        raise CommandError(problem, UNREACHABLE)
    return await run_job(options, open_cluster if options.elsewhere else functools.partial(open_kept, keep_s=keep_s))


async def run_job(options: RunOptions, opener: Opener) -> End | JobID:
    """Run the job to its end, or hand it in when it is to be left alone. Raises CommandError."""
    job_id = JobID(options.job_id or uuid.uuid4().hex)
    display = open_display(is_plain=options.is_script)
    try:
        with Interrupts(lambda: _end_now(job_id, options, display)) as interrupts:
            return await _run(options, job_id, opener, display, interrupts)
    except asyncio.CancelledError:
        raise CommandError("interrupted before the job was submitted", INTERRUPTED) from None
    except TaskFailedError as error:
        raise CommandError(error.failure.headline(), UNREACHABLE, trace=error.failure.trace) from None
    except (PermissionError, ConfigurationError, BuildProcessFailed) as error:
        raise CommandError(str(error), BAD_USAGE) from None
    except OSError as error:
        raise CommandError(f"the cluster can't be used: {error}", UNREACHABLE, trace=traceback.format_exc()) from None
    finally:
        display.close()


def open_cluster(configuration: Configuration) -> AbstractAsyncContextManager[Cluster]:
    """The cluster that the configuration names, or a mini cluster: there Spark starts while the graph is built."""
    cluster: AbstractAsyncContextManager[Cluster]
    if configuration.get_option(REST_ADDRESS):
        from firesteel.client.remote import RemoteCluster

        cluster = RemoteCluster(configuration)
    else:
        from firesteel.minicluster import MiniCluster

        cluster = MiniCluster(configuration)
    return cluster


@contextlib.asynccontextmanager
async def open_kept(configuration: Configuration, *, keep_s: float | None) -> AsyncIterator[Cluster]:
    """The kept cluster of this directory, if one fits, or is to be begun; else one of the command's own."""
    from firesteel.cli.keeping.visit import find_or_begin

    async with await find_or_begin(configuration, keep_s) or open_cluster(configuration) as cluster:
        yield cluster


def _looks_like_ours(arguments: Sequence[str]) -> list[str]:
    """Arguments of a script that its user may have meant for firesteel, shortened to what they set."""
    return [each.partition("=")[0] for each in arguments if each == "--master" or each.startswith("-D")]


async def _run(
    options: RunOptions, job_id: JobID, opener: Opener, display: JobDisplay, interrupts: Interrupts
) -> End | JobID:
    display.note(f"building {os.path.basename(options.file)}")
    for mistaken in _looks_like_ours(options.arguments) if options.is_script else ():
        display.note(f"{mistaken} follows the script's name, so it is an argument of the script")
    async with opener(options.configuration) as cluster:
        with tempfile.TemporaryDirectory(prefix="build-", dir=cluster.work_dir) as directory:
            built = await _build(cluster, options, job_id, directory)
            for warning in built.warnings:
                click.echo(f"firesteel: warning: {warning}", err=True)
            interrupts.defer(hurries=options.elsewhere)  # a job that may have been taken is cancelled, not forgotten
            is_own_id = bool(options.job_id)
            with may_be_there(job_id):
                await submit(cluster.client, built, display, is_own_id=is_own_id, elsewhere=options.elsewhere)
        if options.detach and not interrupts.requested.is_set():
            return job_id
        watch = Watch(cluster.client, job_id, display, interrupts, goes_on=options.elsewhere)
        if options.is_script:
            watch.output = ScriptOutput(cluster.client, job_id, merged=options.as_json)
        else:
            watch.prints = job_prints(cluster.client, job_id, display.printed)
        with may_be_there(job_id):
            end = await watch.until_end()
        if cluster.goodbye:
            display.note(cluster.goodbye)
    return end


def _end_now(job_id: JobID, options: RunOptions, display: JobDisplay) -> None:
    """Whoever insists is let go at once. Every process of the mini cluster ends with this one: each holds a pipe to it."""
    with contextlib.suppress(Exception):  # whatever can't be shown any more: the end is what counts
        display.close()
        advice = f"; if job {job_id} is there, it may go on: `firesteel cancel {job_id}`" if options.elsewhere else ""
        click.echo(f"firesteel: interrupted: ended at once{advice}", err=True)
    os._exit(INTERRUPTED)


async def _build(cluster: Cluster, options: RunOptions, job_id: JobID, directory: str) -> BuiltJob:
    request = BuildRequest(
        file=options.file,
        job_id=job_id,
        parameters=options.parameters,
        flags=options.flags,
        arguments=options.arguments,
        configuration=dict(options.configuration),
        parallelism=options.parallelism,
        overrides=options.overrides,
        name=options.name,
        attachments=options.attachments,
        output_dir=directory,
    )
    payload = msgspec.json.encode(request)
    if options.is_script:  # nothing of it is run, so no process is needed that has the user's code to itself
        reply = decode_build_reply(await asyncio.to_thread(build_in_child, payload))
    else:
        reply = decode_build_reply(await cluster.call(BUILD_ENTRY_POINT, payload))
    if isinstance(reply, BuildFailure):
        raise CommandError(reply.message, BAD_USAGE, trace=reply.trace, location=reply.location)
    return reply


def _finish(end: End, options: RunOptions, log_file: Path, *, verbose: bool) -> int:
    """Print the result and say why it is not a good one; returns the exit code."""
    result = end.result
    print_end(end, as_json=options.as_json, is_script=options.is_script)
    if result.status is not JobStatus.FINISHED:
        trace = result.failure.trace if result.failure and (verbose or not options.is_script) else ""
        _report(_reason(end), trace, log_file, verbose)
    return INTERRUPTED if end.interrupted else exit_code(result)


def _reason(end: End) -> str:
    result = end.result
    if end.interrupted:
        return f"interrupted: {result.name} was cancelled"
    return result.failure.headline() if result.failure else f"{result.name} ended {result.status.value}"


def _report(message: str, trace: str, log_file: Path, verbose: bool) -> None:
    log.warning("%s\n%s", message, trace)
    click.echo(f"firesteel: {message}", err=True)
    if trace and verbose:
        click.echo(trace, err=True)
    elif trace:
        click.echo(f"firesteel: the full trace is in {log_file} (or use --verbose)", err=True)
