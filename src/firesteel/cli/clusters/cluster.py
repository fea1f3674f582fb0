"""`firesteel cluster start | stop | status`: a master and workers in the background, on this host or on many."""

import asyncio
import contextlib
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import click

from firesteel.cli.background import ClusterDirectory
from firesteel.cli.clusters import hosts, thishost
from firesteel.cli.exits import BAD_USAGE, FINISHED, JOB_FAILED, UNREACHABLE, CommandError
from firesteel.cli.keeping import manage as kept
from firesteel.cli.settings import load_configuration
from firesteel.client.remote import http_client
from firesteel.client.transport import ClusterUnreachable, Refused
from firesteel.model import options
from firesteel.model.counts import counted
from firesteel.model.options import Configuration, ConfigurationError
from firesteel.model.views import ClusterOverview

LEADER_TIMEOUT_MS, ANSWER_LIMIT_MS = 3_000, 7_000
"""How long a leader is asked for, while masters answer that they don't lead; and how long the answer may take beyond that."""

NOBODY_LEADS = (ClusterUnreachable, TimeoutError)
NOT_TOLD = (Refused, ConfigurationError)
"""What asking for a leader ends with: none was found, or this client is not answered."""

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
    "masters_given",
    metavar="N|FILE",
    help="Number of masters here, of which one leads; or with --hosts a file: masters are on its hosts, HOST:WEBPORT a line; by default the file `masters` beside the other, or one here.",
)
ha_option = click.option(
    "--ha",
    metavar="KIND",
    help="What outlives a master: none, filesystem (by default, but with --hosts), or zookeeper://HOST:PORT,.../ROOT.",
)


@cluster.command()
@click.option("--taskmanagers", type=click.IntRange(min=0), default=1, show_default=True, help="Workers on each host.")
@hosts_option
@masters_option
@ha_option
@definitions_option
def start(
    taskmanagers: int, workers_file: Path | None, masters_given: str | None, ha: str | None, definitions: Sequence[str]
) -> int:
    """Start masters and workers, and wait until they serve; of a cluster that runs, masters that are gone.

    Exit code 0 when a master leads, 1 when all run and none does, as where its storage is full; 2 and 3 when nothing was started.
    """
    masters = int(masters_given) if masters_given and re.fullmatch(r"[+-]?\d{1,9}", masters_given) else None
    if masters is not None and masters < 1:
        raise CommandError(f"--masters {masters_given}: a cluster has at least one master", BAD_USAGE)
    placed = _placed(workers_file, None if masters else masters_given, taskmanagers)
    if placed and masters:
        raise CommandError("--masters takes a file of hosts beside --hosts, not a number", BAD_USAGE)
    directory = ClusterDirectory(load_configuration(definitions))
    definitions = _with_high_availability(directory, definitions, ha, by_default=not placed)
    config = load_configuration(definitions)
    if masters and masters > 1 and config.get_option(options.HA_TYPE) == "none":
        raise CommandError(f"{masters} masters need --ha filesystem or zookeeper://HOST:PORT/ROOT", BAD_USAGE)
    if not placed:
        thishost.check_workers(config, taskmanagers)
    with directory.locked():
        directory.prune_logs()
        hosts.refuse_second(directory)
        if placed or not thishost.restart_masters(directory):
            thishost.refuse_second(directory)
            if placed:
                hosts.start(directory, config, placed, definitions)
            else:
                _start_here(directory, config, definitions, masters=masters or 1, workers=taskmanagers)
    return _led(config, directory) if _masters_here(directory) else FINISHED


def _start_here(
    directory: ClusterDirectory, config: Configuration, definitions: Sequence[str], *, masters: int, workers: int
) -> None:
    """Ports of further masters follow those of the first; a port 0 is 0 for all of them."""
    rpc, rest = options.JOBMANAGER_PORT, options.REST_PORT
    try:
        ports = []
        for number in range(masters):
            own = {each.key: str(port + number) for each in (rpc, rest) if (port := config.get_option(each))}
            ports.append(thishost.start_master(directory, config, thishost.given(definitions, own)))
        thishost.start_workers(directory, config, workers, thishost.given(definitions, {rpc.key: str(ports[0])}))
    except BaseException:
        thishost.end_all(directory, config)
        raise


def _with_high_availability(
    directory: ClusterDirectory, definitions: Sequence[str], kind: str | None, *, by_default: bool
) -> list[str]:
    """What `--ha` says as definitions; by default jobs outlive the master, in the cluster's directory. Raises CommandError."""
    config = load_configuration(definitions)
    if kind is None and (options.HA_TYPE.key in config or not by_default):
        return list(definitions)
    parts = urlsplit(kind or "filesystem")
    more = {options.HA_TYPE.key: parts.scheme or parts.path}
    if parts.scheme == "zookeeper" and parts.netloc:
        more[options.ZOOKEEPER_QUORUM.key] = parts.netloc
        if parts.path.strip("/"):
            more[options.ZOOKEEPER_ROOT.key] = parts.path.rstrip("/")
    elif kind not in (None, "none", "filesystem"):
        raise CommandError(f"--ha {kind}: write none, filesystem or zookeeper://HOST:PORT/ROOT", BAD_USAGE)
    if kind != "none" and not config.get_option(options.HA_STORAGE_DIR):
        if not by_default:  # masters on several hosts would each have one of their own, and each lead
            text = f"--ha {kind} with --hosts needs {options.HA_STORAGE_DIR.key}: a place that all hosts share"
            raise CommandError(text, BAD_USAGE)
        more[options.HA_STORAGE_DIR.key] = str(directory.jobs)
    return thishost.given(definitions, more)


@cluster.command()
@hosts_option
@masters_option
@definitions_option
def stop(workers_file: Path | None, masters_given: str | None, definitions: Sequence[str]) -> int:
    """End the cluster, and remove its work files and jobs; its logs stay, and what lies in high-availability.storageDir, or in a
    cluster.work-dir that you have named.

    So do all clusters end that `firesteel run --keep-warm` has left behind, with their logs.
    Hosts are those it was started on; files of hosts are for a cluster that was started from elsewhere.
    """
    placed = _placed(workers_file, masters_given, 1)
    config = load_configuration(definitions)
    directory = ClusterDirectory(config)
    with directory.locked():
        hosts.add(directory, config, placed)
        is_there = bool(directory.read()) or hosts.read_cluster(directory) is not None
        if not is_there and not kept.there_are(config):
            raise CommandError("no cluster runs here", UNREACHABLE)
        code = max(kept.stop(config), hosts.stop(directory, config) if is_there else FINISHED)
    if code != UNREACHABLE:
        click.echo("stopped")
    return code


@cluster.command()
@definitions_option
def status(definitions: Sequence[str]) -> int:
    """Say which processes run, and whether one of them leads; also which clusters `firesteel run --keep-warm` has left behind.

    Exit code 0 when all that were started run and a master answers for the cluster, 1 when not, 3 without a cluster.
    """
    config = load_configuration(definitions)
    directory = ClusterDirectory(config)
    is_kept = kept.show(config)
    if not directory.read() and hosts.read_cluster(directory) is None:
        if is_kept:
            return FINISHED
        raise CommandError("no cluster runs here", UNREACHABLE)
    found = [thishost.status(directory), hosts.status(directory, config)]
    if addresses := _masters_here(directory):
        found.append(_show_leader(config, addresses))
    return max(found)


def _led(config: Configuration, directory: ClusterDirectory) -> int:
    """Say when none of the masters leads that were started here; one may have to wait until the lease of a former leader is over."""
    from firesteel.adapters.ha.registers import election_times  # a part of masters, for those who start some

    limit_ms = LEADER_TIMEOUT_MS + election_times(config).lease_ms
    addresses = _masters_here(directory)
    try:
        with contextlib.suppress(*NOT_TOLD):
            asyncio.run(_ask(config, addresses, limit_ms))
    except NOBODY_LEADS as error:
        click.echo(f"{_of_nobody(error, addresses)}. They run, and one leads as soon as it can", err=True)
        return JOB_FAILED
    return FINISHED


def _show_leader(config: Configuration, addresses: str) -> int:
    """Say whether one of these masters leads: all may run, and wait for a storage that is gone."""
    try:
        seen, labels = asyncio.run(_ask(config, addresses, LEADER_TIMEOUT_MS))
    except NOBODY_LEADS as error:
        click.echo(_of_nobody(error, addresses))
        return JOB_FAILED
    except NOT_TOLD as error:
        click.echo(f"whether one leads is not known: {error}")
        return FINISHED
    click.echo(
        f"a master leads, with {counted(seen.task_managers, 'worker')}{_of_labels(labels)} and {seen.slots_free} of {seen.slots_total} slots free"
    )
    return FINISHED


def _masters_here(directory: ClusterDirectory) -> str:
    """Addresses of the masters that were started on this host and run, parted by commas."""
    running = [each for each in directory.read() if each.role == "jobmanager" and each.process() is not None]
    return ",".join(filter(None, (each.where.rpartition(" REST at ")[2] for each in running)))


async def _ask(config: Configuration, addresses: str, limit_ms: int) -> tuple[ClusterOverview, dict[str, int]]:
    """Ask whichever of these masters leads; raises what NOBODY_LEADS and NOT_TOLD name."""
    asking = {options.REST_ADDRESS.key: addresses, options.CLIENT_TIMEOUT.key: f"{limit_ms} ms"}
    client = http_client(config.merged(asking))
    try:
        async with asyncio.timeout((limit_ms + ANSWER_LIMIT_MS) / 1_000):
            return await client.request_cluster_overview(), await client.count_labels()
    finally:
        await client.close()


def _of_nobody(error: Exception, addresses: str) -> str:
    return f"{str(error) or f'nobody leads: no answer from {addresses}'}; the logs of the masters say more"


def _of_labels(labels: dict[str, int]) -> str:
    counted = ", ".join(f"{count} {label}" for label, count in labels.items())
    return f" ({counted})" if counted else ""


def _placed(workers_file: Path | None, masters_file: str | None, each: int) -> list[hosts.Placed]:
    """Processes that the files of hosts ask for. Raises CommandError."""
    if workers_file is None:
        if masters_file is not None:
            raise CommandError(
                "--masters takes a number here; a file of hosts needs --hosts, the file of workers' hosts", BAD_USAGE
            )
        return []
    beside = workers_file.with_name("masters")
    masters = Path(masters_file) if masters_file else beside if beside.exists() else None
    return [*(hosts.read_masters(masters) if masters else ()), *hosts.read_workers(workers_file, each)]
