"""Flink's own keys in a configuration: some are ours under a former name, most mean nothing here.

Whoever comes from Flink brings a `config.yaml` that he knows. Nothing of it is refused only because
Spark, or Python, has no use for it; a key that is neither ours nor Flink's is a mistake.
"""

import functools
from collections.abc import Mapping
from pathlib import Path

from firesteel.model.configuration import HANDED_ON, unknown_key
from firesteel.model.options import OPTIONS, is_known

KEYS_FILE = Path(__file__).with_name("flinkkeys.txt")
"""What it holds and where it comes from stands at its head."""


def sorted_out(given: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The values of `given` that are firesteel's or Spark's, and the keys of Flink's that mean nothing here.

    A key that Flink has renamed to one of ours counts as that one, unless it is there too. Raises
    ConfigurationError for a key that is nobody's, with the nearest name.
    """
    values: dict[str, str] = {}
    renamed: dict[str, str] = {}
    unused: list[str] = []
    for key, value in given.items():
        if is_ours(key):
            values[key] = value
        elif not is_flinks(key):
            raise unknown_key(key, (*OPTIONS, *_keys()))
        elif new := next((name for name in _keys().get(key, ()) if is_known(name)), None):
            renamed.setdefault(new, value)
        else:
            unused.append(key)
    return renamed | values, unused


def is_ours(key: str) -> bool:
    """Whether it means something to firesteel, or is handed to Spark."""
    return is_known(key) or key.startswith(HANDED_ON)


def is_flinks(key: str) -> bool:
    """Whether a configuration of Flink may hold it."""
    parts = key.split(".")
    above = (f"{'.'.join(parts[:length])}.*" for length in range(1, len(parts)))
    return key in _keys() or any(prefix in _keys() for prefix in above)


@functools.cache
def _keys() -> Mapping[str, tuple[str, ...]]:
    """Flink's keys and prefixes (`KEY.*`), each with those that stand for it now. Read when a key is not ours."""
    lines = (line.split() for line in KEYS_FILE.read_text(encoding="utf-8").splitlines() if line[:1] not in ("", "#"))
    return {key: tuple(successors) for key, *successors in lines}
