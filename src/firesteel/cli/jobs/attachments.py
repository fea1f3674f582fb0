"""Options of commands whose pipeline needs more than the directory of its file."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import click

from firesteel.model.options import PYTHON_EXECUTABLE
from firesteel.pipeline.attachments import Attachments

_OPTIONS = (
    click.option("--py-files", multiple=True, metavar="PATHS", help="Python files, zips or wheels to import from."),
    click.option("--files", multiple=True, metavar="PATHS", help="Files for the directory that functions run in."),
    click.option(
        "--archives", multiple=True, metavar="PATHS", help="Archives to unpack there; PATH#NAME names the place."
    ),
    click.option(
        "--py-executable",
        "-pyexec",
        metavar="NAME/bin/python",
        help="The Python that Spark's Python workers run, in one of these archives.",
    ),
)


def attachment_options(command: Callable[..., int]) -> Callable[..., int]:
    """`--py-files`, `--files` and `--archives`, as spark-submit has them, and Flink's `-pyexec`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def taken_attachments(arguments: dict[str, Any]) -> Attachments:
    """Attachments that these options name, taken out of a command's arguments."""
    return Attachments(**{name: _paths(arguments.pop(name)) for name in ("py_files", "files", "archives")})


def taken_interpreter(arguments: dict[str, Any]) -> dict[str, str]:
    """What `--py-executable` says, by the key of the configuration, taken out of a command's arguments."""
    given = arguments.pop("py_executable")
    return {} if given is None else {PYTHON_EXECUTABLE.key: given}


def _paths(given: Sequence[str]) -> tuple[str, ...]:
    """Paths of options with lists between commas; relative ones start where this command runs."""
    paths = (path.strip().removeprefix("file://") for each in given for path in each.split(","))
    return tuple(os.path.join(os.getcwd(), os.path.expanduser(path)) for path in paths if path)
