"""`firesteel retry JOB`: a job that failed or was cancelled, once more."""

import contextlib
import hashlib
from typing import Any

import click
import msgspec

from firesteel.cli.exits import BAD_USAGE, FINISHED, CommandError
from firesteel.cli.jobs.manage import asked, cluster_options, found_id, job_argument
from firesteel.client.http import HttpClusterClient
from firesteel.model.branches import JobCopy, WireValue
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.runtime.client import UnknownJob


@click.command()
@job_argument
@click.option(
    "-p", "--param", "parameters", multiple=True, metavar="NAME=VALUE", help="A job parameter in place of its own."
)
@cluster_options
def retry(job: str, parameters: tuple[str, ...], as_json: bool, **cluster: Any) -> int:
    """Submit JOB, which failed or was cancelled, once more: the same graph, options and code under a new id.

    Everything runs anew, a stream from where it was started. Prints the new id; `firesteel attach` follows it.
    Given twice, it runs once: what has been tried once more is told with its id, which can be tried again itself.
    """
    changed: dict[str, WireValue] = dict(map(_split, parameters))

    async def work(client: HttpClusterClient) -> tuple[JobID, JobID]:
        job_id = await found_id(client, job)
        view = await client.request_job(job_id)
        if not view.status.is_globally_terminal:
            raise CommandError(f"{view.name} is {view.status.value}: only what has ended is tried again", BAD_USAGE)
        again = _next(job_id, changed)
        with contextlib.suppress(UnknownJob):
            earlier = await client.request_job(again)
            ended_well = earlier.status is JobStatus.FINISHED
            more = (
                "submit its file anew" if ended_well else f"`firesteel retry {again}` tries it again when it has ended"
            )
            raise CommandError(
                f"{view.name} was tried once more, as {again}, which is {earlier.status.value}: {more}", BAD_USAGE
            )
        await client.copy_job(job_id, JobCopy(job_id=again, parameters=changed))
        return job_id, again

    job_id, again = asked(work, **cluster)
    click.echo(msgspec.json.encode({"retried": job_id, "jobId": again}) if as_json else again)
    return FINISHED


def _next(job_id: JobID, parameters: dict[str, WireValue]) -> JobID:
    """The id of a job that is tried once more: the same, whoever asks for it and however often."""
    return JobID(hashlib.sha256(msgspec.json.encode((job_id, sorted(parameters.items())))).hexdigest()[:32])


def _split(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise CommandError(f"--param {text}: write NAME=VALUE", BAD_USAGE)
    return name, value
