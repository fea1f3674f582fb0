"""`firesteel list | info | attach | wait | cancel`: the jobs of a cluster."""

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

import click
import msgspec

from firesteel.cli.exits import BAD_USAGE, FINISHED, INTERRUPTED, JOB_FAILED, UNREACHABLE, CommandError
from firesteel.cli.following.endings import print_end
from firesteel.cli.following.follow import describe_failure, duration, exit_code, vertex_state
from firesteel.cli.following.rows import fetch_rows
from firesteel.cli.following.watch import End, Watch
from firesteel.cli.settings import absolute, load_configuration
from firesteel.client.http import HttpClusterClient
from firesteel.client.remote import http_client
from firesteel.client.transport import ClusterUnreachable, Refused, RequestFailed
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import InvalidJobGraph, JobType
from firesteel.model.options import ConfigurationError
from firesteel.model.states import JobStatus
from firesteel.model.streams import AfterSavepoint
from firesteel.model.views import JobSummary, JobView
from firesteel.runtime.client import (
    CancelRefused,
    CheckpointFailed,
    DuplicateJob,
    SavepointFailed,
    StorageFull,
    TooManyJobs,
    UnknownJob,
)

ID_LENGTH = 32

T = TypeVar("T")


def cluster_options(command: Callable[..., int]) -> Callable[..., int]:
    """Options of the commands that speak to a cluster."""
    for option in (
        click.option("-D", "definitions", multiple=True, metavar="KEY=VALUE", help="A configuration option."),
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        click.option(
            "--master",
            default="",
            metavar="ADDRESS[,ADDRESS...]",
            help="HOST:PORT of a master's REST, or zookeeper://HOST:PORT,.../ROOT.",
        ),
    ):
        command = option(command)
    return command


def _known_ids(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Ids of jobs that begin so, for the shell; none when no cluster answers at once."""
    try:
        found = asked(lambda client: client.list_job_summaries(), context.params.get("master") or "", ())
    except CommandError:
        return []
    return [job.job_id for job in found if job.job_id.startswith(incomplete)]


job_argument = click.argument("job", shell_complete=_known_ids)


@click.command("list")
@click.option("--all", "-a", "with_ended", is_flag=True, help="Also those that have ended.")
@cluster_options
def list_(with_ended: bool, as_json: bool, **cluster: Any) -> int:
    """List the jobs of a cluster, newest first: id, state, name, owner, tasks, and why it waits or was cancelled."""

    async def work(client: HttpClusterClient) -> list[JobSummary]:
        found = await client.list_job_summaries()  # of masters that have come after others, by what these have stored
        return sorted(found, key=lambda job: -job.start_time_ms if job.start_time_ms >= 0 else -math.inf)

    found = [job for job in asked(work, **cluster) if with_ended or not job.status.is_globally_terminal]
    if as_json:
        click.echo(msgspec.json.encode(found))
    for job in [] if as_json else found:
        click.echo(summary_line(job, round(time.time() * 1_000)))
    if not found and not as_json:
        click.echo("no jobs" if with_ended else "no jobs that have not ended; --all lists the others too", err=True)
    return FINISHED


@click.command()
@job_argument
@cluster_options
def info(job: str, as_json: bool, **cluster: Any) -> int:
    """Show JOB (its id, or the beginning of it) with its vertices and failures."""

    async def work(client: HttpClusterClient) -> JobView:
        return await client.request_job(await found_id(client, job))

    view = asked(work, **cluster)
    click.echo(msgspec.json.encode(view) if as_json else "\n".join(view_lines(view, round(time.time() * 1_000))))
    return FINISHED


@click.command()
@job_argument
@click.option(
    "--with-savepoint", "-s", is_flag=True, help="Of a stream: take a savepoint first, and print where it is."
)
@click.option("--savepoint-dir", "directory", default="", metavar="DIR", help="Where that is made.")
@cluster_options
def cancel(job: str, with_savepoint: bool, directory: str, as_json: bool, **cluster: Any) -> int:
    """Ask for the end of JOB. Returns when its master has that safe, before the job has ended. Exit codes: 0 then, 2 when JOB goes
    on, since its outputs are being committed and it can't be cancelled any more, or has ended otherwise."""

    async def save(client: HttpClusterClient) -> tuple[JobID, str]:
        job_id = await found_id(client, job)
        async with for_streams(client, job_id):
            return job_id, await client.take_savepoint(job_id, absolute(directory), after=AfterSavepoint.CANCEL)

    async def work(client: HttpClusterClient) -> tuple[JobID, JobStatus]:
        job_id = await found_id(client, job)
        before = (await client.request_job(job_id)).status
        await client.cancel_job(job_id)
        return job_id, before

    if with_savepoint or directory:
        job_id, location = asked(save, **cluster)
        click.echo(msgspec.json.encode({"cancelled": job_id, "savepoint": location}) if as_json else location)
        return FINISHED
    job_id, before = asked(work, **cluster)
    words = f"is {before.value} already" if before.is_globally_terminal else "is being cancelled"
    click.echo(msgspec.json.encode({"cancelled": job_id}) if as_json else f"{job_id} {words}")
    return FINISHED


@click.command()
@job_argument
@cluster_options
def wait(job: str, as_json: bool, **cluster: Any) -> int:
    """Wait until JOB has ended, and print its result with the rows it returned. Exit codes: 0 finished, 1 failed or cancelled."""

    async def work(client: HttpClusterClient) -> End:
        result = await client.request_job_result(await found_id(client, job))
        return End(result, rows=await fetch_rows(client, result))

    return _show_end(asked(work, **cluster), as_json)


@click.command()
@job_argument
@cluster_options
def attach(job: str, as_json: bool, **cluster: Any) -> int:
    """Follow JOB to its end, and print its result with the rows it returned; of a plain script, what it prints.

    Ctrl-C leaves it alone.
    """
    from firesteel.cli.following.live import open_display
    from firesteel.cli.following.output import ScriptOutput
    from firesteel.cli.following.prints import job_prints

    async def work(client: HttpClusterClient) -> tuple[End, bool]:
        job_id = await found_id(client, job)
        is_script = (await client.request_job(job_id)).is_script
        display = open_display(is_plain=is_script)
        watch = Watch(client, job_id, display)
        if is_script:
            watch.output = ScriptOutput(client, job_id, merged=as_json)
        else:
            watch.prints = job_prints(client, job_id, display.printed)
        try:
            return await watch.until_end(), is_script
        finally:
            display.close()

    end, is_script = asked(work, **cluster)
    return _show_end(end, as_json, is_script=is_script)


async def found_id(client: HttpClusterClient, text: str) -> JobID:
    """The job whose id begins so. Raises UnknownJob, or CommandError when several do."""
    if len(text) == ID_LENGTH:
        return JobID(text)
    found = [job.job_id for job in await client.list_job_summaries() if text and job.job_id.startswith(text)]
    if not found:
        raise UnknownJob(f"no job's id begins with {text!r}: see `firesteel list --all`")
    if len(found) > 1:
        raise CommandError(f"the ids of {len(found)} jobs begin with {text!r}: write more of it", BAD_USAGE)
    return found[0]


@contextlib.asynccontextmanager
async def for_streams(client: HttpClusterClient, job_id: JobID) -> AsyncIterator[None]:
    """What is asked for here only a stream that runs can do: of a job that had ended before, or is no stream, it is bad usage and
    no failure. Raises CommandError then."""
    before = await client.request_job(job_id)
    try:
        yield
    except (SavepointFailed, CheckpointFailed) as error:
        if before.status.is_globally_terminal or before.job_type is JobType.BATCH:
            raise CommandError(str(error), BAD_USAGE) from None
        raise


def summary_line(job: JobSummary, now_ms: int) -> str:
    """A job on one line."""
    done, total = job.tasks.get("FINISHED", 0), sum(job.tasks.values())
    until_ms = job.end_time_ms if job.end_time_ms >= 0 else now_ms
    parts = (
        job.job_id,
        f"{job.status.value:<9}",
        job.name,
        f"of {job.owner}" if job.owner else "",
        f"{done}/{total} tasks" if total else "",
        duration(until_ms - job.start_time_ms) if job.start_time_ms >= 0 else "",
        f"branch of {job.branch_of[:8]}" if job.branch_of else "",
        f"({job.reason})" if job.reason else "",
    )
    return "  ".join(part for part in parts if part)


def view_lines(view: JobView, now_ms: int) -> list[str]:
    """A job on some lines."""
    until_ms = view.end_time_ms if view.end_time_ms >= 0 else now_ms
    elapsed = duration(until_ms - view.start_time_ms) if view.start_time_ms >= 0 else ""
    if elapsed:
        elapsed = f" in {elapsed}" if view.status.is_globally_terminal else f", {elapsed} after its begin"
    lines = [f"{view.name} ({view.job_id}): {view.status.value}{elapsed}{view.owner and ', of '}{view.owner}"]
    lines += [f"  branch of {view.branch_of}"] if view.branch_of else []
    lines += [f"  {view.reason}"] if view.reason and not view.status.is_globally_terminal else []
    lines += [f"  {vertex.name}: {vertex_state(vertex)}" for vertex in view.vertices]
    last = view.checkpoints.history.latest_completed if view.checkpoints is not None else None
    lines += [f"  its last checkpoint stays at {last.retained}"] if last is not None and last.retained else []
    return lines + [f"  failed: {describe_failure(entry)}" for entry in view.exceptions]


def _show_end(end: End, as_json: bool, *, is_script: bool = False) -> int:
    """Print how a job ended. Returns the exit code."""
    print_end(end, as_json=as_json, is_script=is_script)
    if end.result.failure is not None:
        click.echo(f"firesteel: {end.result.failure.headline()}", err=True)
    return exit_code(end.result)


def asked(work: Callable[[HttpClusterClient], Awaitable[T]], master: str, definitions: Sequence[str]) -> T:
    """The result of `work` with the cluster's client. Raises CommandError."""

    async def ask() -> T:
        async with http_client(load_configuration(definitions, master)) as client:
            return await work(client)

    try:
        return asyncio.run(ask())
    except (ClusterUnreachable, StorageFull) as error:
        raise CommandError(str(error), UNREACHABLE) from None
    except (SavepointFailed, CheckpointFailed) as error:
        raise CommandError(str(error), JOB_FAILED) from None
    except (
        UnknownJob,
        CancelRefused,
        Refused,
        RequestFailed,
        DuplicateJob,
        InvalidJobGraph,
        TooManyJobs,
        ConfigurationError,
    ) as error:
        raise CommandError(str(error), BAD_USAGE) from None
    except KeyboardInterrupt:
        raise CommandError("interrupted: the job goes on", INTERRUPTED) from None
