"""`firesteel jobmanager`: a master in the foreground."""

from collections.abc import Sequence

import click

from firesteel.cli.processes.foreground import end_itself, run_in_foreground
from firesteel.model.options import Configuration


@click.command()
@click.option("-D", "definitions", multiple=True, metavar="KEY=VALUE", help="A configuration option.")
def jobmanager(definitions: Sequence[str]) -> int:
    """Run a master in the foreground, for systemd, containers and `firesteel cluster`.

    Its log goes to standard error. SIGTERM stops it; exit codes: 0 stopped, 1 it could not go on,
    2 bad configuration, 3 it could not start.
    """
    from firesteel.assembly.jobmanager import JobManager

    def make(config: Configuration) -> JobManager:
        return JobManager(config, shut_down=end_itself)

    return run_in_foreground(definitions, make)
