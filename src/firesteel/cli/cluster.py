"""`firesteel cluster start | stop | status`: a master and workers in the background, on this host or on many."""

from collections.abc import Sequence
from pathlib import Path

import click

from firesteel.cli import hosts, thishost
from firesteel.cli.exits import BAD_USAGE, FINISHED, UNREACHABLE, CommandError
from firesteel.cli.processes import ClusterDirectory
from firesteel.cli.settings import load_configuration
from firesteel.model import options
from firesteel.model.options import Configuration

FilePath = click.Path(path_type=Path, dir_okay=False)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cluster() -> None:
    """A master and workers in the background, on this host or on many.

    Process ids, logs and work files lie below cluster.dir, on each host its own.
    """


definitions_option = click.option(
    "-D", "definitions", multiple=True, metavar="KEY=VALUE", help="A configuration option, or spark.*."
)
hosts_option = click.option(
    "--hosts", "workers_file", type=FilePath, metavar="FILE", help="Workers are on its hosts, one a line, over ssh."
)
masters_option = click.option(
    "--masters",
    "masters_file",
    type=FilePath,
    metavar="FILE",
    help="Masters are on its hosts, HOST:WEBPORT a line; by default the file `masters` beside the other, or one here.",
)


@cluster.command()
@click.option("--taskmanagers", type=click.IntRange(min=0), default=1, show_default=True, help="Workers on each host.")
@hosts_option
@masters_option
@definitions_option
def start(taskmanagers: int, workers_file: Path | None, masters_file: Path | None, definitions: Sequence[str]) -> int:
    """Start a master and workers, and wait until they serve."""
    placed = _placed(workers_file, masters_file, taskmanagers)
    config = load_configuration(definitions)
    if not placed:
        thishost.check_workers(config, taskmanagers)
    directory = ClusterDirectory(config)
    with directory.locked():
        hosts.refuse_second(directory)
        thishost.refuse_second(directory)
        if placed:
            hosts.start(directory, config, placed, definitions)
        else:
            _start_here(directory, config, taskmanagers, definitions)
    return FINISHED


def _start_here(directory: ClusterDirectory, config: Configuration, workers: int, definitions: Sequence[str]) -> None:
    key = options.JOBMANAGER_PORT.key
    try:
        port = thishost.start_master(directory, config, definitions)
        given = [each for each in definitions if each.partition("=")[0].strip() != key]
        thishost.start_workers(directory, config, workers, [*given, f"{key}={port}"])
    except BaseException:
        thishost.end_all(directory, config)
        raise


@cluster.command()
@hosts_option
@masters_option
@definitions_option
def stop(workers_file: Path | None, masters_file: Path | None, definitions: Sequence[str]) -> int:
    """End the cluster, and remove its work files; its logs stay. Jobs that run are lost.

    Hosts are those it was started on; files of hosts are for a cluster that was started from elsewhere.
    """
    placed = _placed(workers_file, masters_file, 1)
    config = load_configuration(definitions)
    directory = ClusterDirectory(config)
    with directory.locked():
        hosts.add(directory, config, placed)
        if not directory.read() and hosts.read_cluster(directory) is None:
            raise CommandError("no cluster runs here", UNREACHABLE)
        code = hosts.stop(directory, config)
    if code != UNREACHABLE:
        click.echo("stopped")
    return code


@cluster.command()
@definitions_option
def status(definitions: Sequence[str]) -> int:
    """Say which processes run; exit code 0 when all that were started do, 1 when some are gone, 3 without a cluster."""
    config = load_configuration(definitions)
    directory = ClusterDirectory(config)
    if not directory.read() and hosts.read_cluster(directory) is None:
        raise CommandError("no cluster runs here", UNREACHABLE)
    return max(thishost.status(directory), hosts.status(directory, config))


def _placed(workers_file: Path | None, masters_file: Path | None, each: int) -> list[hosts.Placed]:
    """What the files say. Raises CommandError."""
    if workers_file is None:
        if masters_file is not None:
            raise CommandError("--masters needs --hosts, the file of workers' hosts", BAD_USAGE)
        return []
    beside = workers_file.with_name("masters")
    masters = masters_file or (beside if beside.exists() else None)
    return [*(hosts.read_masters(masters) if masters else ()), *hosts.read_workers(workers_file, each)]
