"""`firesteel exceptions | logs`: what went wrong with a job, and what its attempts and its workers have printed."""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from firesteel.cli.exits import BAD_USAGE, FINISHED, CommandError
from firesteel.cli.following.joblogs import JobLogs, title_of
from firesteel.cli.jobs.manage import asked, cluster_options, found_id, job_argument
from firesteel.client.http import HttpClusterClient
from firesteel.model.ids import JobID
from firesteel.model.views import ExceptionEntry, JobView
from firesteel.runtime.client import UnknownJob

WORKER_LOG = "taskmanager.log"
FOLLOW_WAIT_S = 20.0
"""Time that one request for more lines of a worker's log waits; then it is sent again."""

TAIL_BYTES = 16 << 10
"""Most bytes shown of what is in the log of a worker already when it is followed."""

NAMED_MAX = 5
"""Most workers that are named where none was meant."""


@click.command()
@job_argument
@cluster_options
def exceptions(job: str, as_json: bool, **cluster: Any) -> int:
    """Show the failures of JOB (its id, or the beginning of it), newest first, with their traces."""

    async def work(client: HttpClusterClient) -> JobView:
        return await client.request_job(await found_id(client, job))

    view = asked(work, **cluster)
    if as_json:
        click.echo(msgspec.json.encode(view.exceptions))
    elif view.exceptions:
        click.echo("\n".join(line for entry in view.exceptions for line in entry_lines(view, entry)))
    else:
        click.echo(f"{view.name} ({view.job_id}) has had no failures", err=True)
    return FINISHED


@click.command()
@click.argument("what", metavar="JOB|TASKMANAGER")
@click.option("--follow", "-f", is_flag=True, help="Go on with what is printed from now on; of a job, to its end.")
@click.option("--list", "only_list", is_flag=True, help="Only say which files there are.")
@cluster_options
def logs(what: str, follow: bool, only_list: bool, as_json: bool, **cluster: Any) -> int:
    """Print what the attempts of a job have printed, or the log of a worker (by its id, or the beginning of it)."""

    async def work(client: HttpClusterClient) -> None:
        workers = await client.list_task_managers()
        worker = _worker(workers, what)
        if worker is None:
            job_id = await _job(client, what, workers)
            if only_list or as_json:
                found = await client.list_job_logs(job_id)
                click.echo(msgspec.json.encode(found) if as_json else "\n".join(map(title_of, found)))
            else:
                found_logs = JobLogs(client, job_id)
                await (found_logs.follow() if follow else found_logs.show())
        elif only_list or as_json:
            raise CommandError("--list and --json are for jobs", BAD_USAGE)
        else:
            async for text in _lines(client, worker, follow):
                click.echo(text, nl=False)

    asked(work, **cluster)
    return FINISHED


def entry_lines(view: JobView, entry: ExceptionEntry, indent: str = "") -> list[str]:
    """A failure on some lines, with those that came while it was handled."""
    names = [
        vertex.name
        for vertex in view.vertices
        if vertex.first_region <= entry.region < vertex.first_region + vertex.parallelism
    ]
    where = f"{', '.join(names)}, attempt {entry.attempt + 1}" if names else view.name
    worker = f" on {entry.task_manager}" if entry.task_manager else ""
    time = datetime.fromtimestamp(entry.timestamp_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    lines = [f"{indent}{time} UTC  {where}{worker}: {entry.failure.headline()}"]
    lines += [f"{indent}    {line}" for line in entry.failure.excerpt.splitlines()]
    lines += [f"{indent}    {line}" for line in entry.failure.trace.splitlines()]
    return lines + [line for each in entry.concurrent for line in entry_lines(view, each, f"{indent}  with ")]


async def _job(client: HttpClusterClient, text: str, workers: Sequence[str]) -> JobID:
    """The job whose id begins so, where no worker's does. Raises CommandError."""
    try:
        return await found_id(client, text)
    except UnknownJob:
        more = f" and {len(workers) - NAMED_MAX} more" if len(workers) > NAMED_MAX else ""
        named = f"the workers are {', '.join(workers[:NAMED_MAX])}{more}" if workers else "no worker is registered"
        raise CommandError(
            f"neither a job's id nor a worker's begins with {text!r}: `firesteel list --all` has the jobs; {named}",
            BAD_USAGE,
        ) from None


def _worker(workers: Sequence[str], text: str) -> str | None:
    """The worker whose id begins so; None when there is none. Raises CommandError when there are several."""
    found = [text] if text in workers else [worker for worker in workers if text and worker.startswith(text)]
    if len(found) > 1:
        raise CommandError(f"the ids of {len(found)} workers begin with {text!r}: write more of it", BAD_USAGE)
    return found[0] if found else None


async def _lines(client: HttpClusterClient, worker: str, follow: bool) -> AsyncIterator[str]:
    """Lines of a worker's log: all there are, or the end of it and what comes."""
    lines = await client.read_log(worker, WORKER_LOG, -TAIL_BYTES if follow else 0)
    end = lines.size
    while True:
        yield lines.text
        if not follow and (not lines.text or lines.next_offset >= end):
            return
        lines = await client.read_log(worker, WORKER_LOG, lines.next_offset, FOLLOW_WAIT_S if follow else 0.0)
