"""`firesteel`: commands are loaded when they are used, so that `--help` answers at once."""

import builtins
import contextlib
import errno
import gc
import importlib
import logging
import os
import select
import sys
import traceback
from typing import Any, NoReturn

import click

from firesteel.cli.exits import BAD_USAGE, INTERRUPTED, JOB_FAILED, OUTPUT_LOST, READER_GONE, CommandError

GARBAGE_THRESHOLD = 20_000
"""Objects that are made before Python looks for cycles among them. By default it is 700, which takes a tenth of the time
of loading a command, and a sixth of that of a master, where it is less than two jobs make."""

NOT_PRINTED = (errno.EPIPE, errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of writing when the program that reads our output has ended, the terminal was closed, or the disk is full."""

COMMANDS = {
    "run": ("firesteel.cli.jobs.run", "Run a pipeline and follow it to its end."),
    "submit": ("firesteel.cli.jobs.submit", "Hand a pipeline's job in to a cluster, and leave it."),
    "list": ("firesteel.cli.jobs.manage", "List the jobs of a cluster."),
    "info": ("firesteel.cli.jobs.manage", "Show a job with its vertices and failures."),
    "attach": ("firesteel.cli.jobs.manage", "Follow a job to its end."),
    "wait": ("firesteel.cli.jobs.manage", "Wait for a job's end."),
    "exceptions": ("firesteel.cli.jobs.inspect", "Show what went wrong with a job."),
    "logs": ("firesteel.cli.jobs.inspect", "Print what a job's attempts have printed, or a worker's log."),
    "cancel": ("firesteel.cli.jobs.manage", "Cancel a job."),
    "retry": ("firesteel.cli.jobs.retry", "Submit a job that failed or was cancelled once more."),
    "savepoint": ("firesteel.cli.jobs.savepoints", "Take a savepoint of a streaming job, or dispose of one."),
    "state": ("firesteel.cli.jobs.state", "Print what a streaming query keeps."),
    "checkpoint": ("firesteel.cli.jobs.savepoints", "Take a checkpoint of a streaming job."),
    "stop": ("firesteel.cli.jobs.savepoints", "Stop a streaming job, with a savepoint."),
    "branch": ("firesteel.cli.jobs.branches", "Start a new version of a streaming job beside it."),
    "compare": ("firesteel.cli.jobs.compare", "Say whether two streaming jobs have written the same."),
    "promote": ("firesteel.cli.jobs.branches", "Put a branch into the place of the job it branched from."),
    "plan": ("firesteel.cli.jobs.plan", "Show graph, regions and exchanges of a pipeline, without Spark."),
    "cluster": (
        "firesteel.cli.clusters.cluster",
        "Start or stop a master and workers on this host or on many, or say what runs.",
    ),
    "jobmanager": ("firesteel.cli.processes.jobmanager", "Run a master in the foreground."),
    "taskmanager": ("firesteel.cli.processes.taskmanager", "Run a worker in the foreground."),
    "application": (
        "firesteel.cli.processes.application",
        "Run a master for one job in the foreground, and end with it.",
    ),
    "historyserver": ("firesteel.cli.processes.historyserver", "Show jobs that have ended, in the foreground."),
    "zookeeper": ("firesteel.cli.processes.zookeeper", "Run a small ZooKeeper server in the foreground, for trials."),
    "doctor": (
        "firesteel.cli.doctor",
        "Say what is wrong with this machine's Java, Spark or storage, and how to mend it.",
    ),
}
"""Module and one line of help, by command; the module has a click command of the same name."""

INNER_COMMANDS = {"keptcluster": ("firesteel.cli.processes.keptcluster", "The process of a cluster that `run` keeps.")}
"""The same, for commands that only firesteel itself gives: they are not listed."""


class Commands(click.Group):
    """A group whose commands are modules that are imported when their command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        known = {**COMMANDS, **INNER_COMMANDS}
        if cmd_name not in known:
            return None
        name = f"{cmd_name}_" if hasattr(builtins, cmd_name) else cmd_name
        command = getattr(importlib.import_module(known[cmd_name][0]), name)
        assert isinstance(command, click.Command), "a command's module defines it under its name"
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="firesteel", message="firesteel %(version)s")
def cli() -> None:
    """firesteel: a highly available master for PySpark pipelines.

    Exit codes: 0 finished, 1 job failed, 2 bad usage or bad pipeline, 3 cluster unreachable,
    4 output could not be written, 130 interrupted, 141 nobody reads the output any more.
    """


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a command and end the process with its code: at once, for taking a Python apart takes as long as a request."""
    gc.set_threshold(GARBAGE_THRESHOLD)
    code = exit_code(arguments)
    try:
        logging.shutdown()
        for stream in filter(None, (sys.stdout, sys.stderr)):  # None where the caller has closed it
            stream.flush()
    except OSError as error:
        code = code or _not_printed(error)
    os._exit(code)


def exit_code(arguments: list[str] | None = None) -> int:
    """Run a command. Everything that goes wrong becomes a sentence on standard error and a code."""
    if not __debug__:
        click.echo("firesteel: checks itself with assertions: run Python without -O and PYTHONOPTIMIZE", err=True)
        return BAD_USAGE
    try:
        os.getcwd()
    except OSError as error:
        click.echo(f"firesteel: the current directory can't be used ({error.strerror}): go to another", err=True)
        return BAD_USAGE
    _fill_standard_streams()
    try:
        code: Any = cli.main(args=arguments, prog_name="firesteel", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return BAD_USAGE
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except CommandError as error:
        click.echo(f"firesteel: {error.message}", err=True)
        return error.code
    except SystemExit:  # click's way out where nobody reads any more
        return _not_printed(BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)))
    except Exception as error:
        if isinstance(error, OSError) and error.errno in NOT_PRINTED and error.filename is None:
            return _not_printed(error)
        from firesteel.model.configuration import ConfigurationError

        if isinstance(error, ConfigurationError):
            click.echo(f"firesteel: {error}", err=True)
            return BAD_USAGE
        click.echo(f"firesteel: a bug in firesteel itself: {type(error).__name__}: {error}", err=True)
        click.echo(traceback.format_exc(), err=True)
        return JOB_FAILED
    return code if isinstance(code, int) else 0


def _fill_standard_streams() -> None:
    """Where the caller has closed them, what is printed goes nowhere, and the exit code is the job's."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


def _not_printed(error: OSError) -> int:
    """A scheduler must not take it for the job's failure, and do again what was done. A reader that has gone wants no more."""
    is_wanted = error.errno != errno.EPIPE or not _is_broken(1, 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nothing may be written any more, also not at exit
    if not is_wanted:
        return READER_GONE
    with contextlib.suppress(OSError):
        print(f"firesteel: what there was to say could not be written: {error.strerror}", file=sys.stderr, flush=True)
    return OUTPUT_LOST


def _is_broken(*files: int) -> bool:
    """Whether nobody reads from one of these open files any more."""
    poll = select.poll()
    for file in files:
        poll.register(file, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
