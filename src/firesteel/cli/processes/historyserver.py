"""`firesteel historyserver`: a history server in the foreground."""

from collections.abc import Sequence

import click

from firesteel.cli.processes.foreground import run_in_foreground


@click.command()
@click.option("-D", "definitions", multiple=True, metavar="KEY=VALUE", help="A configuration option.")
def historyserver(definitions: Sequence[str]) -> int:
    """Show jobs that have ended, of any number of clusters, from the directories that they were archived in.

    historyserver.archive.fs.dir names these. Its log goes to standard error. SIGTERM stops it; exit codes:
    0 stopped, 1 it could not go on, 2 bad configuration, 3 it could not start.
    """
    from firesteel.assembly.historyserver import HistoryServer

    return run_in_foreground(definitions, HistoryServer)
