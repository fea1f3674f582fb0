"""`firesteel savepoint | stop | checkpoint`: savepoints and checkpoints of streaming jobs."""

from typing import Any

import click
import msgspec

from firesteel.cli.exits import BAD_USAGE, DAMAGED, FINISHED, CommandError
from firesteel.cli.jobs.manage import asked, cluster_options, for_streams, found_id, job_argument
from firesteel.cli.settings import absolute, load_configuration, storage_settings
from firesteel.client.http import HttpClusterClient
from firesteel.model.counts import counted
from firesteel.model.ids import JobID
from firesteel.model.options import Configuration
from firesteel.model.streams import AfterSavepoint
from firesteel.runtime.client import SavepointFailed


@click.command()
@click.argument("job", required=False, default="")
@click.argument("directory", required=False, default="")
@click.option("--dispose", "-d", metavar="PATH", default="", help="Delete the savepoint there.")
@click.option(
    "--verify", metavar="PATH", default="", help="Read the savepoint there, from here: is it what was written?"
)
@cluster_options
def savepoint(job: str, directory: str, dispose: str, verify: str, as_json: bool, **cluster: Any) -> int:
    """Take a savepoint of JOB, which goes on, in DIRECTORY or the configured one. Prints its location.

    With --verify files that have no digest yet get one; the exit code is 1 if others are not what was written, which are
    named. Needs no cluster.
    """
    if [bool(job), bool(dispose), bool(verify)].count(True) != 1:
        raise CommandError("give a job, or --dispose PATH, or --verify PATH", BAD_USAGE)
    if verify:
        return _verify(absolute(verify), load_configuration(cluster["definitions"]), as_json=as_json)
    if dispose:
        asked(lambda client: disposed(client, absolute(dispose)), **cluster)
        click.echo(msgspec.json.encode({"disposed": dispose}) if as_json else f"{dispose} is disposed of")
        return FINISHED
    job_id, location = asked(lambda client: taken(client, job, directory, AfterSavepoint.GO_ON), **cluster)
    click.echo(msgspec.json.encode({"job": job_id, "savepoint": location}) if as_json else location)
    return FINISHED


def _verify(path: str, configuration: Configuration, *, as_json: bool) -> int:
    from firesteel.adapters.spark.streams.snapshots import savepoints
    from firesteel.adapters.spark.streams.snapshots.errors import SavepointDamaged, SnapshotError
    from firesteel.adapters.spark.streams.snapshots.places import place_at

    try:
        place = place_at(path, storage_settings(configuration))
        if not (manifest := savepoints.verify(place)).is_sealed:
            manifest = savepoints.seal(place)
    except SavepointDamaged as damaged:
        told = {"savepoint": path, "problems": damaged.problems}
        click.echo(msgspec.json.encode(told) if as_json else "\n".join(damaged.problems))
        return DAMAGED
    except SnapshotError as error:
        raise CommandError(str(error), BAD_USAGE) from error
    files = sum(len(query.files) for query in manifest.queries)
    whole = f"{path} is what was written: {counted(files, 'file')}, {manifest.size_bytes} bytes"
    click.echo(msgspec.json.encode({"savepoint": path, "problems": ()}) if as_json else whole)
    return FINISHED


@click.command()
@job_argument
@click.option("--drain", is_flag=True, help="Read what is there first, to its end.")
@click.option("--savepoint-dir", "-p", "directory", default="", metavar="DIR", help="Where the savepoint is made.")
@cluster_options
def stop(job: str, drain: bool, directory: str, as_json: bool, **cluster: Any) -> int:
    """Stop the queries of JOB and take a savepoint of where they have come to; the job is FINISHED then. If the savepoint
    can't be taken, it goes on. Prints the savepoint's location."""
    after = AfterSavepoint.DRAIN if drain else AfterSavepoint.STOP
    job_id, location = asked(lambda client: taken(client, job, directory, after), **cluster)
    click.echo(msgspec.json.encode({"stopped": job_id, "savepoint": location}) if as_json else location)
    return FINISHED


@click.command()
@job_argument
@cluster_options
def checkpoint(job: str, as_json: bool, **cluster: Any) -> int:
    """Take a checkpoint of JOB, which goes on. Prints its number."""
    job_id, number = asked(lambda client: checkpointed(client, job), **cluster)
    click.echo(msgspec.json.encode({"job": job_id, "checkpoint": number}) if as_json else number)
    return FINISHED


async def checkpointed(client: HttpClusterClient, job: str) -> tuple[JobID, int]:
    """The job whose id begins so, and the number of its checkpoint. Raises CheckpointFailed."""
    job_id = await found_id(client, job)
    async with for_streams(client, job_id):
        return job_id, await client.take_checkpoint(job_id)


async def taken(client: HttpClusterClient, job: str, directory: str, after: AfterSavepoint) -> tuple[JobID, str]:
    """The job whose id begins so, and the location of its savepoint. Raises SavepointFailed."""
    job_id = await found_id(client, job)
    async with for_streams(client, job_id):
        return job_id, await client.take_savepoint(job_id, absolute(directory), after=after)


async def disposed(client: HttpClusterClient, path: str) -> None:
    """Delete the savepoint there. Raises CommandError: no job has failed when that can't be done."""
    try:
        await client.dispose_savepoint(path)
    except SavepointFailed as error:
        raise CommandError(str(error), BAD_USAGE) from None
