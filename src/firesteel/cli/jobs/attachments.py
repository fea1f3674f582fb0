"""Options of commands whose pipeline needs more than the directory of its file."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import click

from firesteel.pipeline.attachments import Attachments

_OPTIONS = (
    click.option("--py-files", multiple=True, metavar="PATHS", help="Python files, zips or wheels to import from."),
    click.option("--files", multiple=True, metavar="PATHS", help="Files for the directory that functions run in."),
    click.option(
        "--archives", multiple=True, metavar="PATHS", help="Archives to unpack there; PATH#NAME names the place."
    ),
)


def attachment_options(command: Callable[..., int]) -> Callable[..., int]:
    """`--py-files`, `--files` and `--archives`, as spark-submit has them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def taken_attachments(arguments: dict[str, Any]) -> Attachments:
    """Attachments that these options name, taken out of a command's arguments."""
    return Attachments(**{name: _paths(arguments.pop(name)) for name in ("py_files", "files", "archives")})


def _paths(given: Sequence[str]) -> tuple[str, ...]:
    """Paths of options with lists between commas; relative ones start where this command runs."""
    paths = (path.strip().removeprefix("file://") for each in given for path in each.split(","))
    return tuple(os.path.join(os.getcwd(), os.path.expanduser(path)) for path in paths if path)
