"""Locks in HDFS. A lock is a directory whose one entry is named by its data: so a rename changes it on condition."""

import contextlib
import posixpath
import time
import uuid
from collections.abc import Callable, Iterable
from typing import TypeVar

from firesteel.adapters.storage.objects import Conflict, Version
from firesteel.adapters.storage.patience import tried
from firesteel.adapters.storage.webhdfs import WebHdfs

T = TypeVar("T")

PATIENCE_S = 5.0
"""Time in which a request is made again: who holds a lock, or wants it, comes again by itself, and says meanwhile why."""


class HdfsLocks:
    """`Locks` by paths."""

    def __init__(self, client: WebHdfs, wait: Callable[[float], None] = time.sleep) -> None:
        self._client, self._wait = client, wait

    def uri(self, key: str) -> str:
        return self._client.uri(key)

    def get(self, name: str) -> Version:
        found = self._tried(lambda: self._client.listed(name))
        if not found:
            raise FileNotFoundError(f"{self.uri(name)} is not held")
        return Version(found[0].name.encode(), found[0].name)

    def put(self, name: str, data: bytes, after: str | None) -> str:
        entry, own = data.decode(), f"{name}.{uuid.uuid4().hex}"
        try:
            if after is None:
                self._tried(lambda: self._client.make_directory(f"{own}/{entry}"))
                self._rename(own, name)
            else:
                self._rename(f"{name}/{after}", f"{name}/{entry}")
        except (FileExistsError, FileNotFoundError):
            if after is None:
                self._delete(own, recursive=True)  # who waits comes again and again
            raise Conflict(f"{self.uri(name)} is held by somebody else") from None
        return entry

    def delete(self, names: Iterable[str]) -> None:
        """With what was left by those that were killed when they made one; who is making one now finds it gone, and begins
        again. Staging directories that are empty then go, too."""
        for name in names:
            self._delete(name, recursive=True)
            above = posixpath.dirname(name)
            with contextlib.suppress(FileNotFoundError):
                for each in self._tried(lambda above=above: self._client.listed(above)):  # type: ignore[misc]
                    if each.name.startswith(f"{posixpath.basename(name)}."):
                        self._delete(f"{above}/{each.name}", recursive=True)
            with contextlib.suppress(FileExistsError):
                self._delete(above, recursive=False)

    def _rename(self, old: str, new: str) -> None:
        self._tried(
            lambda: self._client.rename(old, new, replaces=False)
        )  # whether a lost one was done, who called finds out

    def _delete(self, path: str, *, recursive: bool) -> None:
        self._tried(lambda: self._client.delete(path, recursive=recursive))

    def _tried(self, call: Callable[[], T]) -> T:
        return tried(call, lambda: None, self._wait, patience_s=PATIENCE_S)
