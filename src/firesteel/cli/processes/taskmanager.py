"""`firesteel taskmanager`: a worker in the foreground."""

from collections.abc import Sequence

import click

from firesteel.cli.exits import UNREACHABLE, CommandError
from firesteel.cli.java import java_problem
from firesteel.cli.processes.foreground import run_in_foreground


@click.command()
@click.option("-D", "definitions", multiple=True, metavar="KEY=VALUE", help="A configuration option, or spark.*.")
def taskmanager(definitions: Sequence[str]) -> int:
    """Run a worker in the foreground, for systemd, containers and `firesteel cluster`.

    It finds its master at jobmanager.rpc.address and jobmanager.rpc.port, and looks for it until it is
    there. Its log goes to standard error. SIGTERM stops it; exit codes: 0 stopped, 1 it could not go on,
    2 bad configuration, 3 it could not start, or the master is of another cluster or version.
    """
    from firesteel.assembly.taskmanager import TaskManager

    if problem := java_problem():
        raise CommandError(problem, UNREACHABLE)
    return run_in_foreground(definitions, TaskManager)
