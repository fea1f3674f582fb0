"""A cluster on many hosts: read from files like Flink's, started over ssh, written down, found again, ended."""

import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
import msgspec

from firesteel.cli.background import ClusterDirectory
from firesteel.cli.clusters import thishost
from firesteel.cli.clusters.onhost import Order, Role, Verb
from firesteel.cli.clusters.ssh import Outcome, Ssh
from firesteel.cli.exits import BAD_USAGE, FINISHED, JOB_FAILED, UNREACHABLE, CommandError
from firesteel.model import options
from firesteel.model.options import Configuration
from firesteel.model.stored import UNREADABLE, StoredRecord

AT_ONCE = 32
"""Connections at the same time."""
ENDED = (FINISHED, JOB_FAILED)
"""Exit codes of a stop after which nothing runs: by itself, or killed."""
HOST = re.compile(r"([\w.-]+@)?\w[\w.-]*")
LOOPBACK = re.compile(r"localhost|127\.[\d.]+")


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """Processes of one role on one host."""

    host: str
    role: Role
    count: int = 1
    rest_port: str = ""

    @property
    def address(self) -> str:
        return self.host.rpartition("@")[2]


class HostCluster(StoredRecord, frozen=True, kw_only=True):
    """The processes that may run on other hosts, and how those are reached."""

    placed: list[Placed]
    ssh: Ssh


def read_workers(file: Path, each: int) -> list[Placed]:
    """A host a line; one that is named several times gets as many times `each` workers. Raises CommandError."""
    if not each:
        raise CommandError("--hosts is for workers: leave --taskmanagers out, or start at least 1 on each", BAD_USAGE)
    hosts = [_checked(file, host) for host in _entries(file)]
    return [Placed(host=host, role="taskmanager", count=each * hosts.count(host)) for host in dict.fromkeys(hosts)]


def read_masters(file: Path) -> list[Placed]:
    """HOST or HOST:WEBPORT a line. Raises CommandError."""
    masters = []
    for entry in _entries(file):
        host, colon, port = entry.partition(":")
        if colon and not (port.isascii() and port.isdecimal() and int(port) < 1 << 16):
            raise CommandError(f"{file}: {entry}: write HOST or HOST:WEBPORT", BAD_USAGE)
        masters.append(Placed(host=_checked(file, host), role="jobmanager", rest_port=port))
    if len({master.host for master in masters}) < len(masters):
        raise CommandError(f"{file}: a host is named twice", BAD_USAGE)
    return masters


def check(config: Configuration, masters: Sequence[Placed], workers: Sequence[Placed]) -> None:
    """Raises CommandError for what could not work together."""
    if len(masters) > 1 and config.get_option(options.HA_TYPE) == "none":
        raise CommandError(
            f"{len(masters)} masters need {options.HA_TYPE.key}: else each has jobs of its own", BAD_USAGE
        )
    address = masters[0].address if masters else config.get_option(options.JOBMANAGER_ADDRESS)
    elsewhere = [each.host for each in (*masters[1:], *workers) if LOOPBACK.fullmatch(each.address) is None]
    if elsewhere and LOOPBACK.fullmatch(address):
        text = f"{elsewhere[0]} can't reach a master at {address}: set {options.JOBMANAGER_ADDRESS.key} to this host's name"
        raise CommandError(text, BAD_USAGE)
    shared = config.get_option(options.RESULTS_DIR) or config.get_option(options.WORK_DIR)
    if len({each.address for each in workers}) > 1 and not shared:
        text = (
            f"workers read what those of other hosts have stored: set {options.RESULTS_DIR.key} (or"
            f" {options.WORK_DIR.key}) to what all share, a directory, s3://BUCKET/PATH or hdfs://HOST:PORT/PATH"
        )
        raise CommandError(text, BAD_USAGE)
    if sum(each.count for each in workers) > 1 and config.get_option(options.TASKMANAGER_RESOURCE_ID):
        raise CommandError(
            f"{options.TASKMANAGER_RESOURCE_ID.key} names one worker, not several: leave it out", BAD_USAGE
        )


def read_cluster(directory: ClusterDirectory) -> HostCluster | None:
    """The record of what was started over ssh from here, and not stopped."""
    try:
        return msgspec.json.decode(_record(directory).read_bytes(), type=HostCluster)
    except FileNotFoundError:
        return None
    except (OSError, *UNREADABLE) as error:
        text = f"{_record(directory)} can't be read ({error}): `{thishost.STOP_COMMAND} --hosts FILE`, then delete it"
        raise CommandError(text, UNREACHABLE) from None


def write_cluster(directory: ClusterDirectory, cluster: HostCluster) -> None:
    if not cluster.placed:
        _record(directory).unlink(missing_ok=True)
        return
    new = _record(directory).with_suffix(".new")
    new.write_bytes(msgspec.json.encode(cluster))
    os.replace(new, _record(directory))


def add(directory: ClusterDirectory, config: Configuration, placed: Sequence[Placed]) -> None:
    """Write down what was started from elsewhere."""
    if placed:
        known = read_cluster(directory)
        ssh = Ssh.of(config)
        others = [each for each in known.placed if each not in placed] if known else []
        write_cluster(directory, HostCluster(placed=[*others, *placed], ssh=ssh))


def refuse_second(directory: ClusterDirectory) -> None:
    """Raises CommandError when something of an earlier start may run on other hosts."""
    if known := read_cluster(directory):
        hosts = ", ".join(dict.fromkeys(each.host for each in known.placed))
        text = f"a cluster runs on {hosts} already; `{thishost.STOP_COMMAND}` ends it"
        raise CommandError(text, BAD_USAGE)


def start(
    directory: ClusterDirectory, config: Configuration, placed: Sequence[Placed], definitions: Sequence[str]
) -> None:
    """Masters first, or one on this host when none is placed; then workers. All, or nothing is left.

    Raises CommandError with a line for each host that could not.
    """
    masters = [each for each in placed if each.role == "jobmanager"]
    workers = [each for each in placed if each.role == "taskmanager"]
    check(config, masters, workers)
    ssh = Ssh.of(config)
    try:
        if masters:
            address, port = masters[0].address, _start(directory, ssh, config, masters)[0]
        else:
            address = config.get_option(options.JOBMANAGER_ADDRESS)
            port = thishost.start_master(directory, config, definitions)
        where = {options.JOBMANAGER_ADDRESS.key: address, options.JOBMANAGER_PORT.key: str(port)}
        _start(directory, ssh, config.merged(where), workers)
    except BaseException:
        stop(directory, config)
        raise


def stop(directory: ClusterDirectory, config: Configuration) -> int:
    """End what runs on other hosts and here, workers first. What could not be reached stays written down."""
    codes = [FINISHED]
    for role in ("taskmanager", "jobmanager"):
        known = read_cluster(directory) or HostCluster(placed=[], ssh=Ssh.of(config))
        asked = [each for each in known.placed if each.role == role]
        outcomes = _send("stop", asked, known.ssh, config)
        codes += [outcome.answer.code for outcome in outcomes]
        ended = [each for each, outcome in zip(asked, outcomes, strict=True) if outcome.answer.code in ENDED]
        left = [each for each in known.placed if each not in ended]
        write_cluster(directory, HostCluster(placed=left, ssh=known.ssh))
        _show_outcomes(outcomes)
    return max(*codes, thishost.stop(directory, config))


def status(directory: ClusterDirectory, config: Configuration) -> int:
    """Say what runs on other hosts; the exit code is the worst of theirs."""
    known = read_cluster(directory)
    outcomes = _send("status", known.placed, known.ssh, config) if known else []
    _show_outcomes(outcomes)
    return max((outcome.answer.code for outcome in outcomes), default=FINISHED)


def _start(directory: ClusterDirectory, ssh: Ssh, config: Configuration, placed: Sequence[Placed]) -> list[int]:
    """Start processes, written down before and crossed out when they surely do not run. Returns ports."""
    before = read_cluster(directory)
    known = before.placed if before else []
    write_cluster(directory, HostCluster(placed=[*known, *placed], ssh=ssh))
    outcomes = _send("start", placed, ssh, config)
    failed = [outcome for outcome in outcomes if outcome.answer.code != FINISHED]
    gone = [outcome.order.host for outcome in failed if not outcome.is_open]
    left = [each for each in placed if each.host not in gone]
    write_cluster(directory, HostCluster(placed=[*known, *left], ssh=ssh))
    _show_outcomes([outcome for outcome in outcomes if outcome not in failed])
    if failed:
        lines = [f"  {outcome.order.host}: {outcome.answer.err}" for outcome in failed]
        text = f"{len(failed)} of {len(placed)} hosts could not start their {placed[0].role}, so the cluster is not started:"
        raise CommandError("\n".join([text, *lines]), max(outcome.answer.code for outcome in failed))
    return [outcome.answer.rpc_port for outcome in outcomes]


def _send(verb: Verb, placed: Sequence[Placed], ssh: Ssh, config: Configuration) -> list[Outcome]:
    """Send an order to all of them at the same time; outcomes in their order."""

    def send(each: Placed) -> Outcome:
        values = dict(config)
        if each.role == "jobmanager":
            values[options.JOBMANAGER_ADDRESS.key] = each.address
        if each.rest_port:
            values[options.REST_PORT.key] = each.rest_port
        order = Order(verb=verb, role=each.role, host=each.host, count=each.count, configuration=values)
        return ssh.send(order, config)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(send, placed))


def _show_outcomes(outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        for text, is_error in ((outcome.answer.out, False), (outcome.answer.err, True)):
            for line in text.splitlines():
                click.echo(f"{outcome.order.host}: {line}", err=is_error)


def _entries(file: Path) -> list[str]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"can't read {file}: {error}", BAD_USAGE) from None
    entries = [entry for line in lines if (entry := line.partition("#")[0].strip())]
    if not entries:
        raise CommandError(f"{file} names no host: write one a line", BAD_USAGE)
    return entries


def _checked(file: Path, host: str) -> str:
    if HOST.fullmatch(host) is None:
        raise CommandError(f"{file}: {host!r} is no host's name: write HOST or USER@HOST, one a line", BAD_USAGE)
    return host


def _record(directory: ClusterDirectory) -> Path:
    return directory.path / "hosts.json"
