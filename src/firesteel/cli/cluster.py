"""`firesteel cluster start | stop | status`: a master and workers on this host, in the background."""

import shutil
from collections.abc import Sequence

import click

from firesteel.cli.exits import BAD_USAGE, FINISHED, JOB_FAILED, UNREACHABLE, CommandError
from firesteel.cli.java import java_problem
from firesteel.cli.processes import ClusterDirectory, Recorded, end_processes, start_process, until_serving
from firesteel.cli.settings import load_configuration
from firesteel.model import options
from firesteel.model.options import Configuration

STOP_GRACE_S = 5.0
"""Beyond the limits that the processes have for their own end."""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cluster() -> None:
    """A master and workers on this host, in the background.

    Process ids, logs and work files lie below cluster.dir.
    """


definitions_option = click.option(
    "-D", "definitions", multiple=True, metavar="KEY=VALUE", help="A configuration option, or spark.*."
)


@cluster.command()
@click.option("--taskmanagers", type=click.IntRange(min=0), default=1, show_default=True, help="Number of workers.")
@definitions_option
def start(taskmanagers: int, definitions: Sequence[str]) -> int:
    """Start a master and workers, and wait until they serve."""
    config = load_configuration(definitions)
    if taskmanagers and (problem := java_problem()):
        raise CommandError(problem, UNREACHABLE)
    directory = ClusterDirectory(config)
    with directory.locked():
        known = directory.read()
        running = [record for record in known if record.process() is not None]
        if running:
            text = f"a cluster runs here already: {', '.join(map(_named, running))}; `firesteel cluster stop` ends it"
            raise CommandError(text, BAD_USAGE)
        if known:
            click.echo("the processes of the last cluster are gone; what they left is removed", err=True)
            _forget(directory)
        try:
            _start(directory, config, taskmanagers, definitions)
        except BaseException:
            _end_all(directory, config)
            raise
    return FINISHED


def _start(directory: ClusterDirectory, config: Configuration, workers: int, definitions: Sequence[str]) -> None:
    """Each process is written down before it is waited for."""
    base = list(definitions)
    if not config.get_option(options.WORK_DIR):
        directory.work.mkdir(exist_ok=True)
        base.append(f"{options.WORK_DIR.key}={directory.work}")
    records = [start_process(directory, "jobmanager", "jobmanager", base)]
    _until_serving(directory, records, 0)
    port = records[0].where.partition(",")[0].rpartition(":")[2]
    given = [each for each in base if each.partition("=")[0].strip() != options.JOBMANAGER_PORT.key]
    given.append(f"{options.JOBMANAGER_PORT.key}={port}")
    for number in range(1, workers + 1):
        records.append(start_process(directory, "taskmanager", f"taskmanager-{number}", given))
        directory.write(records)
    for place in range(1, len(records)):
        _until_serving(directory, records, place)


def _until_serving(directory: ClusterDirectory, records: list[Recorded], place: int) -> None:
    """Wait for one of them; the records on disk are never behind what runs."""
    directory.write(records)
    records[place] = until_serving(records[place])
    directory.write(records)
    click.echo(f"started {_named(records[place])}")


@cluster.command()
@definitions_option
def stop(definitions: Sequence[str]) -> int:
    """End the cluster, and remove its work files; its logs stay. Jobs that run are lost."""
    config = load_configuration(definitions)
    directory = ClusterDirectory(config)
    with directory.locked():
        if not directory.read():
            raise CommandError("no cluster runs here", UNREACHABLE)
        killed = _end_all(directory, config)
    for record in killed:
        click.echo(f"{_named(record)} did not end by itself and was killed; see {record.log}", err=True)
    click.echo("stopped")
    return JOB_FAILED if killed else FINISHED


@cluster.command()
@definitions_option
def status(definitions: Sequence[str]) -> int:
    """Say which processes run; exit code 0 when all that were started do, 1 when some are gone, 3 without a cluster."""
    directory = ClusterDirectory(load_configuration(definitions))
    known = directory.read()
    if not known:
        raise CommandError("no cluster runs here", UNREACHABLE)
    gone = [record for record in known if record.process() is None]
    for record in known:
        click.echo(f"{_named(record)} {'is gone' if record in gone else 'runs'}, log: {record.log}")
    return JOB_FAILED if gone else FINISHED


def _end_all(directory: ClusterDirectory, config: Configuration) -> list[Recorded]:
    """Workers first: their goodbyes reach the master. Returns what had to be killed."""
    known = directory.read()
    limit_s = 3 * config.get_option(options.SHUTDOWN_TIMEOUT) / 1000 + STOP_GRACE_S
    killed: list[Recorded] = []
    for role in ("taskmanager", "jobmanager"):
        killed += end_processes([record for record in known if record.role == role], limit_s)
    _forget(directory)
    return killed


def _forget(directory: ClusterDirectory) -> None:
    shutil.rmtree(directory.work, ignore_errors=True)
    directory.write([])


def _named(record: Recorded) -> str:
    return f"{record.role} {record.where} (process {record.pid})".replace("  ", " ")
