"""What a kept cluster was begun with, and what of that a command that would use it has otherwise.

Pure: everything that processes take over at their start, and keep, comes in as text. What a job brings along with itself
(its code, parameters and options) is not among it.
"""

import hashlib
from collections.abc import Mapping

from firesteel.model.options import REST_ADDRESS, Configuration

Identity = dict[str, str]
"""Hash of each thing by its name for people. Hashes, since values may be secrets."""

OF_THE_JOB = ("job.", "jobmanager.execution.", "pipeline.", "python.", "restart-strategy.")
"""Beginnings of the keys of options that come with each job, and that a kept cluster is begun without."""
OF_THE_COMMAND = ("client.", "execution.", "env.", "cluster.dir", REST_ADDRESS.key)
"""Those that only the command itself reads."""

PASSING = frozenset(
    [
        "_",
        "COLORTERM",
        "COLUMNS",
        "DBUS_SESSION_BUS_ADDRESS",
        "DISPLAY",
        "GPG_TTY",
        "INVOCATION_ID",
        "JOURNAL_STREAM",
        "LINES",
        "OLDPWD",
        "SHLVL",
        "STY",
        "TERM",
        "WAYLAND_DISPLAY",
        "WINDOW",
        "WINDOWID",
        "XAUTHORITY",
    ]
)
PASSING_BEGINNINGS = ("SSH_", "TERM_", "TMUX", "VSCODE_", "XDG_SESSION_")
"""Environment variables that are another terminal's, and that no user has set."""

DIGITS = 16


def of_cluster(configuration: Configuration) -> Configuration:
    """The options that a kept cluster is begun with."""
    others = (*OF_THE_JOB, *OF_THE_COMMAND)
    return Configuration({key: value for key, value in configuration.items() if not key.startswith(others)})


def identity(configuration: Configuration, environment: Mapping[str, str], machine: Mapping[str, str]) -> Identity:
    """`machine` has what else processes start from: versions, the Python environment, Java, the directory."""
    named = {
        **machine,
        **{f"option {key}": value for key, value in of_cluster(configuration).items()},
        **{f"environment variable {name}": value for name, value in environment.items() if not _is_passing(name)},
    }
    return {name: _hash(value) for name, value in named.items()}


def difference(kept: Identity, wanted: Identity) -> list[str]:
    """Names of what is not the same, or only with one of the two."""
    return sorted(name for name in kept.keys() | wanted.keys() if kept.get(name) != wanted.get(name))


def _is_passing(name: str) -> bool:
    return name in PASSING or name.startswith(PASSING_BEGINNINGS)


def _hash(value: str) -> str:
    return hashlib.sha256(value.encode("utf-8", "surrogateescape")).hexdigest()[:DIGITS]
