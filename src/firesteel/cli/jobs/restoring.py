"""Options of commands whose job may start from a savepoint."""

from collections.abc import Callable
from typing import Any

import click

from firesteel.cli.exits import BAD_USAGE, CommandError
from firesteel.cli.settings import absolute
from firesteel.model.options import CLAIM_MODE, IGNORE_UNCLAIMED, RESTORE_PATH

_OPTIONS = (
    click.option("--from-savepoint", "-s", metavar="PATH", help="Start the queries of a stream from there."),
    click.option(
        "--claim-mode",
        metavar="MODE",
        help="CLAIM: the savepoint is the job's from here on, which disposes of it. NO_CLAIM, the default: it stays.",
    ),
    click.option(
        "--allow-non-restored-state",
        "-n",
        "ignores_unclaimed",
        is_flag=True,
        help="Start also when the savepoint has queries that the pipeline has not.",
    ),
)


def restoring_options(command: Callable[..., int]) -> Callable[..., int]:
    """`--from-savepoint` and what goes with it."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def taken_restoring(arguments: dict[str, Any]) -> dict[str, str | None]:
    """What these options say, by the key of the configuration, taken out of a command's arguments. Raises CommandError."""
    return {
        RESTORE_PATH.key: _savepoint(arguments.pop("from_savepoint")),
        CLAIM_MODE.key: arguments.pop("claim_mode"),
        IGNORE_UNCLAIMED.key: "true" if arguments.pop("ignores_unclaimed") else None,
    }


def _savepoint(given: str | None) -> str | None:
    """Where it is. Raises CommandError when that is empty: a stream would begin anew, and read everything again."""
    if given == "":
        raise CommandError("--from-savepoint '': no savepoint is there; is a variable empty?", BAD_USAGE)
    return None if given is None else absolute(given)
