"""Directories of this machine, or mounted on it."""

import contextlib
import os
import re
import uuid
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from firesteel.adapters.storage import local
from firesteel.adapters.storage.directories import is_hidden

_WRITTEN = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://[^/]*)?(.*)", re.DOTALL)
"""A location as Hadoop's `Path` reads it: scheme, authority, path, without escapes, queries or fragments."""


class LocalDirectories:
    """`Directories` by paths or `file:` URIs."""

    @property
    def at_once(self) -> int:
        return 1

    def as_spark(self, location: str) -> str:
        return location

    def files(self, location: str) -> dict[str, int]:
        top, found = str(as_path(location)), {}
        for parent, directories, names in os.walk(top):
            directories[:] = [name for name in directories if not is_hidden(name)]
            for path in (os.path.join(parent, name) for name in names if not is_hidden(name)):
                found[os.path.relpath(path, top)] = os.stat(path).st_size
        return found

    def sizes(self, location: str, names: tuple[str, ...]) -> dict[str, int]:
        top, found = str(as_path(location)), {}
        for name in names:
            try:
                found[name] = os.stat(os.path.join(top, name)).st_size
            except FileNotFoundError:
                continue
        return found

    def end_of(self, location: str, name: str) -> BinaryIO:
        return open(as_path(location) / name, "rb")

    def read(self, location: str, name: str) -> bytes:
        return (as_path(location) / name).read_bytes()

    def write(self, location: str, name: str, data: bytes) -> None:
        (as_path(location) / name).write_bytes(data)

    def create(self, location: str, name: str, data: bytes) -> bytes:
        local.make_directory(as_path(location))
        path = as_path(location) / name
        own = path.with_name(f".{name}-{uuid.uuid4().hex}")
        own.write_bytes(data)
        try:
            with contextlib.suppress(FileExistsError):
                os.link(own, path)  # whole at once, and once
        finally:
            own.unlink()
        return path.read_bytes()

    def remove(self, location: str) -> None:
        local.remove(as_path(location))


def as_path(location: str) -> Path:
    """The path that an absolute path or `file:` URI names."""
    parts = urlsplit(location)
    return Path(unquote(parts.path) if parts.scheme == "file" else location)


def written_path(location: str) -> tuple[str, str]:
    """Scheme and path of what a user writes, read as Spark reads it (Hadoop's `Path`): `file:///a%20b` is `/a%20b`, where
    `as_path` would have `/a b`. The scheme of a plain path is empty."""
    found = _WRITTEN.fullmatch(location)
    return (found[1].lower(), found[2]) if found else ("", location)
