"""`firesteel branch | promote`: a new version of a streaming job beside it, and in its place."""

import os
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click
import msgspec

from firesteel.cli.exits import BAD_USAGE, FINISHED, INTERRUPTED, JOB_FAILED, UNREACHABLE, CommandError
from firesteel.cli.jobs.attachments import attachment_options, taken_attachments, taken_interpreter
from firesteel.cli.jobs.manage import asked, cluster_options, found_id, job_argument
from firesteel.cli.settings import absolute, load_configuration, named_values, pairs
from firesteel.client.branching import BranchFailed, Branching, BranchRefused, BranchRequest
from firesteel.client.http import HttpClusterClient
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import CLIENT_DIRECTORY_VARIABLE
from firesteel.model.options import IGNORE_UNCLAIMED
from firesteel.pipeline.build import BuildRequest
from firesteel.pipeline.errors import InvalidPipeline

T = TypeVar("T")

parameters_option = click.option(
    "--param", "-p", "parameters", multiple=True, metavar="NAME=VALUE", help="A parameter with another value."
)
directory_option = click.option(
    "--savepoint-dir", "directory", default="", metavar="DIR", help="Where the savepoint is made."
)


@click.command()
@job_argument
@click.argument("file")
@parameters_option
@click.option(
    "--set", "overrides", multiple=True, metavar="FUNCTION.OPTION=VALUE", help="An option of a function, for this job."
)
@click.option("--name", default="", help="Name of the new job; the pipeline's by default.")
@click.option(
    "--allow-non-restored-state",
    "-n",
    "ignores_unclaimed",
    is_flag=True,
    help="Start also when the job has queries that the new version has not.",
)
@directory_option
@attachment_options
@cluster_options
def branch(job: str, file: str, parameters: tuple[str, ...], directory: str, as_json: bool, **given: Any) -> int:
    """Start the pipeline of FILE, a new version of JOB, beside it: from a live savepoint of JOB, with its parameters and
    options but for those that are given. Its sinks must write elsewhere. Prints the new job's id when its queries run.

    `firesteel compare` says whether both give the same, `firesteel promote` puts it into JOB's place.
    """
    attachments = taken_attachments(given)
    values, flags = named_values(parameters)
    own = pairs(given["definitions"], "-D") | taken_interpreter(given)
    if given.pop("ignores_unclaimed"):
        own[IGNORE_UNCLAIMED.key] = "true"
    build = BuildRequest(
        file=os.path.join(os.getcwd(), file),
        job_id=JobID(uuid.uuid4().hex),
        parameters=values,
        flags=flags,
        configuration=own,
        overrides=pairs(given.pop("overrides"), "--set"),
        name=given.pop("name"),
        attachments=attachments,
    )
    defaults = dict(load_configuration((), given["master"]))
    os.environ.setdefault(CLIENT_DIRECTORY_VARIABLE, os.getcwd())

    async def work(branching: Branching, client: HttpClusterClient) -> JobID:
        parent_id = await found_id(client, job)
        return await branching.branch(parent_id, BranchRequest(build, defaults, absolute(directory)))

    job_id = _done(work, **given)
    click.echo(msgspec.json.encode({"branch": job_id}) if as_json else job_id)
    return FINISHED


@click.command()
@job_argument
@parameters_option
@directory_option
@cluster_options
def promote(job: str, parameters: tuple[str, ...], directory: str, as_json: bool, **cluster: Any) -> int:
    """Put JOB, a branch, into the place of the job it branched from: that one is stopped with a savepoint, a job with the
    branch's code goes on from there into the same output, and the branch is cancelled. Prints the new job's id.

    What the branch's sinks were given becomes what the former job's had; --param says otherwise. When it is interrupted, the
    same command goes on where it was.
    """
    values, flags = named_values(parameters)
    overlay = {**values, **dict.fromkeys(flags, "true")}

    async def work(branching: Branching, client: HttpClusterClient) -> JobID:
        promotion = await branching.promote(await found_id(client, job), overlay, absolute(directory))
        return promotion.job_id

    job_id = _done(work, **cluster)
    click.echo(msgspec.json.encode({"promoted": job_id}) if as_json else job_id)
    return FINISHED


def _done(work: Callable[[Branching, HttpClusterClient], Awaitable[T]], **cluster: Any) -> T:
    """Raises CommandError, which says what there is when it was interrupted."""
    stands = "nothing was changed"

    async def ask(client: HttpClusterClient) -> T:
        nonlocal stands
        branching = Branching(client, lambda text: click.echo(f"firesteel: {text}", err=True))
        try:
            return await work(branching, client)
        finally:
            stands = branching.stands

    try:
        return asked(ask, **cluster)
    except (BranchRefused, InvalidPipeline) as error:
        raise CommandError(str(error), BAD_USAGE) from None
    except BranchFailed as error:
        raise CommandError(str(error), JOB_FAILED) from None
    except CommandError as error:
        if error.code == INTERRUPTED:
            raise CommandError(f"interrupted: {stands}", INTERRUPTED) from None
        if error.code == UNREACHABLE:
            raise CommandError(f"{error.message}; {stands}", UNREACHABLE) from None
        raise
