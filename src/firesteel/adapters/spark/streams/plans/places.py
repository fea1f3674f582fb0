"""Where the sources of a streaming query read from, by number: Spark goes on from the offsets that a number has. Pure."""

import posixpath
import re
from collections.abc import Mapping, Sequence

import msgspec

from firesteel.model.secrets import redacted_text

_FILES = ("", "avro", "binaryfile", "csv", "json", "orc", "parquet", "text", "xml")
"""Formats of Spark's file source; none is that of `spark.sql.sources.default`."""
_TELLING = ("pathglobfilter", "subscribe", "subscribepattern", "assign", "kafka.bootstrap.servers", "host", "port")
"""Options that say what is read, in lower case; others say how."""
_BASE_PATH = "basepath"
_LOCAL = re.compile(r"^file:(?://)?(?=/)")
_GLOB = re.compile(r"[*?\[{]")


class Place(msgspec.Struct, frozen=True):
    """What one source reads, without secrets."""

    format: str
    paths: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    """Of those that tell, in lower case, in order."""

    def __str__(self) -> str:
        return " ".join((self.format or "files", *self.paths, *(f"{name}={text}" for name, text in self.options)))


def place(file_format: str, paths: Sequence[str], options: Mapping[str, str]) -> Place:
    """Of a reader with these options, a path among them or not."""
    given = {name.lower(): text for name, text in options.items()}
    found = [*paths, *([given["path"]] if "path" in given else [])]
    telling = sorted((name, redacted_text(text)) for name, text in given.items() if name in (*_TELLING, _BASE_PATH))
    return Place(file_format.lower(), tuple(redacted_text(_plain(each)) for each in found), tuple(telling))


def moved(before: Sequence[Place], now: Sequence[Place]) -> list[tuple[Place, Place]]:
    """Sources, before and now, that have the number of another one: they would go on from that one's offsets."""
    return [(old, new) for old, new in _pairs(before, now) if new != old and new in before]


def left(before: Sequence[Place], now: Sequence[Place]) -> list[tuple[Place, Place]]:
    """Sources of files, before and now, that are elsewhere: Spark looks for the files of its last batch below the new place,
    and ends the query."""
    return [(old, new) for old, new in _pairs(before, now) if _is_left(old, new)]


def _pairs(before: Sequence[Place], now: Sequence[Place]) -> list[tuple[Place, Place]]:
    return list(zip(before, now, strict=True)) if len(before) == len(now) else []


def _is_left(old: Place, new: Place) -> bool:
    if old.format not in _FILES or new.format not in _FILES or len(old.paths) != 1 or len(new.paths) != 1:
        return False
    (was,), (path,) = old.paths, new.paths
    if _GLOB.search(path) or any(name == _BASE_PATH for name, _ in new.options):
        return False
    return was != path and not was.startswith(f"{path.rstrip('/')}/")


def _plain(path: str) -> str:
    plain = _LOCAL.sub("", path)
    return plain.rstrip("/") if ":/" in plain else posixpath.normpath(plain)
