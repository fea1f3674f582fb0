"""The end of a job, printed: its result, and the rows it has returned."""

import click

from firesteel.cli.following.follow import result_json, result_lines
from firesteel.cli.following.rows import records, show_rows
from firesteel.cli.following.watch import End


def print_end(end: End, *, as_json: bool, is_script: bool = False) -> None:
    """Print the end to standard output; of a script, whose output has gone there, to standard error."""
    if as_json:
        click.echo(result_json(end.result, records(end.rows)))
        return
    click.echo("\n".join(result_lines(end.result)), err=is_script)
    show_rows(end.rows)
