"""The cluster's processes on this host: what `firesteel cluster` does here, and over ssh on other hosts."""

import contextlib
import shutil
from collections.abc import Mapping, Sequence

import click
import psutil

from firesteel.cli.background import (
    HELPERS_LIMIT_S,
    START_LIMIT_S,
    ClusterDirectory,
    Recorded,
    end_helpers,
    end_processes,
    start_limit_s,
    start_process,
    stop_limit_s,
    until_serving,
)
from firesteel.cli.exits import BAD_USAGE, FINISHED, JOB_FAILED, UNREACHABLE, CommandError
from firesteel.cli.java import java_problem
from firesteel.model import options
from firesteel.model.options import Configuration

STOP_COMMAND = "firesteel cluster stop"
MAKING_ARCHIVE = "-XX:ArchiveClassesAtExit"


def check_workers(config: Configuration, workers: int) -> None:
    """Raises CommandError when so many can't run here."""
    if workers and (problem := java_problem()):
        raise CommandError(problem, UNREACHABLE)
    if workers > 1 and config.get_option(options.TASKMANAGER_RESOURCE_ID):
        text = f"{options.TASKMANAGER_RESOURCE_ID.key} names one worker: leave it out to start {workers}"
        raise CommandError(text, BAD_USAGE)


def refuse_second(directory: ClusterDirectory, stop: str = STOP_COMMAND) -> None:
    """Raises CommandError when processes run here, which `stop` ends; forgets those that are gone."""
    known = directory.read()
    running = [record for record in known if record.process() is not None]
    if running:
        text = f"a cluster runs here already: {', '.join(map(named, running))}; `{stop}` ends it"
        raise CommandError(text, BAD_USAGE)
    if known and directory.jobs.exists():
        click.echo("the processes of the last cluster are gone; its jobs go on", err=True)
        directory.write([])
    elif known:
        click.echo("the processes of the last cluster are gone; what they left is removed", err=True)
        forget(directory)


def restart_masters(directory: ClusterDirectory) -> bool:
    """Start masters again that are gone while others of the cluster run, each at its ports; whether there were any."""
    records = directory.read()
    gone = [place for place, record in enumerate(records) if record.role == "jobmanager" and record.process() is None]
    if not gone or all(record.process() is None for record in records):
        return False
    for place in gone:
        former = records[place]
        click.echo(f"{named(former)} is gone: it is started again", err=True)
        records[place] = start_process(directory, "jobmanager", "jobmanager", given(former.definitions, _ports(former)))
    _until_serving(directory, records)
    return True


def start_master(directory: ClusterDirectory, config: Configuration, definitions: Sequence[str]) -> int:
    """Start a master and wait until it serves. Returns its port for workers."""
    record = start_process(directory, "jobmanager", "jobmanager", _with_work_dir(directory, config, definitions))
    _until_serving(directory, [*directory.read(), record])
    return _rpc_port(directory.read()[-1])


def start_workers(directory: ClusterDirectory, config: Configuration, count: int, definitions: Sequence[str]) -> None:
    """Start them all, and wait until each serves."""
    given = _with_work_dir(directory, config, definitions)
    records = directory.read()
    for number in range(1, count + 1):
        records.append(start_process(directory, "taskmanager", f"taskmanager-{number}", given))
        directory.write(records)
    _until_serving(directory, records, start_limit_s(config))


def stop(directory: ClusterDirectory, config: Configuration) -> int:
    """End what runs here; the exit code says whether all ended by themselves."""
    killed = end_all(directory, config)
    for record in killed:
        click.echo(f"{named(record)} did not end by itself and was killed; see {record.log}", err=True)
    return JOB_FAILED if killed else FINISHED


def status(directory: ClusterDirectory) -> int:
    """Say what runs here; the exit code says whether something that was started is gone."""
    known = directory.read()
    gone = [record for record in known if record.process() is None]
    for record in known:
        click.echo(f"{named(record)} {'is gone' if record in gone else 'runs'}, log: {record.log}")
    return JOB_FAILED if gone else FINISHED


def end_all(directory: ClusterDirectory, config: Configuration) -> list[Recorded]:
    """Workers first: their goodbyes reach the master. Returns what had to be killed."""
    known, limit_s = directory.read(), stop_limit_s(config)
    killed: list[Recorded] = []

    for role in ("taskmanager", "jobmanager"):
        killed += end_processes(
            [record for record in known if record.role == role],
            limit_s,
            on_wait=lambda record: _say_waiting(named(record), limit_s),
        )
    end_helpers(
        directory,
        HELPERS_LIMIT_S,
        on_wait=lambda helper: _say_waiting(f"a process that they have started ({_shown(helper)})", HELPERS_LIMIT_S),
    )
    forget(directory)
    return killed


def _shown(helper: psutil.Process) -> str:
    """What it is, where that is known: most often what makes the archive of Spark's classes, for quicker starts."""
    with contextlib.suppress(psutil.Error):
        if any(part.endswith("archivist.py") or part.startswith(MAKING_ARCHIVE) for part in helper.cmdline()):
            return f"{helper.pid}, which makes the archive of Spark's classes, for quicker starts"
    return str(helper.pid)


def _say_waiting(what: str, limit_s: float) -> None:
    click.echo(f"waiting for {what} to end; it is killed after {limit_s:g} s", err=True)


def forget(directory: ClusterDirectory) -> None:
    for files in (directory.work, directory.conf, directory.jobs):
        shutil.rmtree(files, ignore_errors=True)
    directory.write([])


def named(record: Recorded) -> str:
    return f"{record.role} {record.where} (process {record.pid})".replace("  ", " ")


def given(definitions: Sequence[str], more: Mapping[str, str]) -> list[str]:
    """Definitions with others in place of what they said before."""
    kept = [each for each in definitions if each.partition("=")[0].strip() not in more]
    return [*kept, *(f"{key}={value}" for key, value in more.items())]


def _ports(master: Recorded) -> dict[str, str]:
    """Definitions of the ports that it had; none when it has never served: its own say what it is to have."""
    if not master.where:
        return {}
    return {
        options.JOBMANAGER_PORT.key: str(_rpc_port(master)),
        options.REST_PORT.key: master.where.rpartition(":")[2],
    }


def _rpc_port(master: Recorded) -> int:
    return int(master.where.partition(",")[0].rpartition(":")[2])


def _with_work_dir(directory: ClusterDirectory, config: Configuration, definitions: Sequence[str]) -> list[str]:
    """Work files of this cluster lie in its own directory, unless the user named one."""
    if config.get_option(options.WORK_DIR):
        return list(definitions)
    directory.work.mkdir(exist_ok=True)
    return [*definitions, f"{options.WORK_DIR.key}={directory.work}"]


def _until_serving(directory: ClusterDirectory, records: list[Recorded], limit_s: float = START_LIMIT_S) -> None:
    """Wait for those that don't serve yet; the records on disk are never behind what runs."""
    directory.write(records)
    for place, record in enumerate(records):
        if not record.where:
            records[place] = until_serving(record, limit_s)
            directory.write(records)
            click.echo(f"started {named(records[place])}")
