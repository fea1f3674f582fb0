"""A job is handed in: under one id, however often that is tried, and never half way when somebody interrupts."""

import contextlib
import re
import shlex
from collections.abc import Iterator

import click

from firesteel.cli.exits import BAD_USAGE, UNREACHABLE, CommandError
from firesteel.cli.following.live import JobDisplay
from firesteel.client.transport import RequestFailed
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import InvalidJobGraph
from firesteel.model.secrets import redacted
from firesteel.pipeline.build import BuiltJob
from firesteel.runtime.client import ClusterOperations, DuplicateJob, StorageFull, TooManyJobs, UnknownJob

_ID = re.compile(r"[0-9a-f]{32}")


def job_id_of(text: str) -> JobID:
    """An id that somebody chose: 32 hex digits, or a UUID. Raises CommandError."""
    found = text.lower().replace("-", "")
    if _ID.fullmatch(found) is None:
        advice = 'of another name, take its hash: --job-id "$(printf %s NAME | md5sum | cut -c-32)"'
        raise CommandError(f"--job-id {shlex.quote(text)}: an id has 32 hex digits, as a UUID has; {advice}", BAD_USAGE)
    return JobID(found)


async def submit(
    client: ClusterOperations, built: BuiltJob, display: JobDisplay, *, is_own_id: bool, elsewhere: bool
) -> JobID:
    """Hand the job in, to a cluster in this process or `elsewhere`; returns when it is safe. Raises CommandError.

    With an id of the caller's own, a job of that id and name is the one that is meant, also when it has ended.
    """
    job_id = built.graph.job_id
    try:
        return await client.submit_job(built.graph, built.artifact_paths())
    except DuplicateJob as error:
        if not is_own_id:
            raise CommandError(str(error), BAD_USAGE) from None
        others = await _check_known(client, built)
        but = f", though it has other parameters ({', '.join(others)})" if others else ""
        display.note(f"job {job_id} is known already: nothing was handed in{but}")
        return job_id
    except (InvalidJobGraph, TooManyJobs) as error:
        raise CommandError(str(error), BAD_USAGE) from None
    except (StorageFull, RequestFailed) as error:
        raise CommandError(str(error), UNREACHABLE) from None
    except ConnectionError as error:
        if not elsewhere:
            raise
        again = f"whether it has the job is not known, so repeat this with --job-id {job_id}"
        raise CommandError(f"{error}; {again}", UNREACHABLE) from None


@contextlib.contextmanager
def may_be_there(job_id: JobID) -> Iterator[None]:
    """Of a job that is being handed in or followed: an error by which its end is not known has its id."""
    try:
        yield
    except CommandError as error:
        if error.code == UNREACHABLE:
            error.job_id = job_id
        raise


async def _check_known(client: ClusterOperations, built: BuiltJob) -> list[str]:
    """Names of parameters that have other values there, as far as these are known any more. Raises CommandError when the job of
    that id is another one."""
    job_id, name = built.graph.job_id, built.graph.name
    try:
        known = await client.request_job(job_id)
    except UnknownJob:  # forgotten in this moment
        raise CommandError(
            f"job {job_id} has ended long ago: its id can be used again from now on", BAD_USAGE
        ) from None
    if known.name != name:
        raise CommandError(f"job {job_id} is another one, {known.name}: choose another id for {name}", BAD_USAGE)
    there, here = redacted(known.parameters), redacted(built.graph.parameters)
    return sorted(key for key in there.keys() | here.keys() if there.get(key) != here.get(key) and known.vertices)


job_id_option = click.option(
    "--job-id",
    default=None,
    metavar="ID",
    help="An id of your own, 32 hex digits: whoever does not know whether it was done may do it again, and a job of that id runs once.",
)
