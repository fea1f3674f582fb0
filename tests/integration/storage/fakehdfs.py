"""An HDFS in memory, with the requests of `WebHdfs` and what a NameNode answers; any request may be the last, or lost."""

import contextlib
import itertools
import posixpath
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from firesteel.adapters.storage.hdfstree import BY_ID
from firesteel.adapters.storage.webhdfs import Status
from firesteel.testing.power import PowerCut

T = TypeVar("T")

ROOT = ""
SILENT = "the NameNode does not answer"


class Died(BaseException):
    """The worker was killed here."""


class FakeHdfs:
    """`entries`: id and, of a file, content by path."""

    def __init__(self, seed: int = 0) -> None:
        self._ids = itertools.count(1)
        self.entries: dict[str, tuple[int, bytes | None]] = {ROOT: (0, None)}
        self.dies_at = -1
        """So many requests are done; the next kills whoever makes it. Negative: none does."""
        self.loses = 0.0
        """Chance that an answer is lost."""
        self.modified_ms: dict[int, int] = {}
        """By id; of all others: now."""
        self._random = random.Random(seed)

    def uri(self, path: str) -> str:
        return f"hdfs://nn:8020{path}"

    def status(self, path: str) -> Status | None:
        self._begin()
        path = self._resolved(path)
        return self._end(self._status(path) if path in self.entries else None)

    def listed(self, path: str) -> list[Status]:
        self._begin()
        path = self._resolved(path)
        if path not in self.entries:
            raise FileNotFoundError(path)
        if self.entries[path][1] is not None:
            return [self._status(path)._replace(name="")]
        below = sorted(each for each in self.entries if each != ROOT and posixpath.dirname(each) in (path, path or "/"))
        return self._end([self._status(each) for each in below])

    def make_directory(self, path: str) -> None:
        self._begin()
        self._make(path)
        self._end(None)

    def rename(self, old: str, new: str, *, replaces: bool) -> None:
        self._begin()
        old, new = self._resolved(old), self._resolved(new)
        if old not in self.entries or (posixpath.dirname(new) not in self.entries and posixpath.dirname(new) != "/"):
            raise FileNotFoundError(old)
        there = self.entries.get(new)
        is_same_kind = there is not None and (there[1] is None) == (self.entries[old][1] is None)
        if there is not None and (old == new or not replaces or not is_same_kind or self._below(new)):
            raise FileExistsError(new)
        for path in (old, *self._below(old)):
            self.entries[new + path.removeprefix(old)] = self.entries.pop(path)
        self._end(None)

    def delete(self, path: str, *, recursive: bool) -> bool:
        self._begin()
        path = self._resolved(path)
        below = self._below(path)
        if below and not recursive:
            raise FileExistsError(path)
        found = [self.entries.pop(each, None) for each in (*below, path)]
        return self._end(any(found))

    def write(self, path: str, data: bytes) -> None:
        self._begin()
        path = self._resolved(path)
        if path.startswith(BY_ID):
            raise FileNotFoundError(path)
        self._make(posixpath.dirname(path))
        self.entries[path] = (next(self._ids), data)
        self._end(None)

    def upload(self, path: str, source: Path) -> None:
        self.write(path, source.read_bytes())

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        self._begin()
        found = self.entries.get(self._resolved(path), (0, None))[1]
        if found is None:
            raise FileNotFoundError(path)
        return self._end(found[offset : None if length is None else offset + length])

    def _resolved(self, path: str) -> str:
        """The same where it begins with the id of what is gone."""
        if not path.startswith(BY_ID):
            return path
        number, slash, below = path.removeprefix(f"{BY_ID}/").partition("/")
        found = (each for each, entry in self.entries.items() if entry[0] == int(number))
        return next((f"{each}{slash}{below}" for each in found), path)

    def _make(self, path: str) -> None:
        steps = path.split("/")
        for end in range(2, len(steps) + 1):
            entry = self.entries.setdefault("/".join(steps[:end]), (next(self._ids), None))
            if entry[1] is not None:
                raise FileExistsError(path)

    def _status(self, path: str) -> Status:
        number, content = self.entries[path]
        modified_ms = self.modified_ms.get(number, round(time.time() * 1_000))
        return Status(posixpath.basename(path), content is None, len(content or b""), number, modified_ms)

    def _below(self, path: str) -> list[str]:
        return [each for each in self.entries if each.startswith(f"{path}/")]

    def _begin(self) -> None:
        if self.dies_at == 0:
            raise Died
        self.dies_at -= 1

    def _end(self, answer: T) -> T:
        if self._random.random() < self.loses:
            raise OSError("the answer was lost")
        return answer


class FaultyHdfs:
    """Requests to an HDFS, in memory or a real one. `cut_at`, `fail_at`: the request of that number, from now on, is the last, or
    fails; done before that if `done`."""

    def __init__(self, behind: Any) -> None:
        self._behind, self._lock = behind, threading.RLock()
        self._one_by_one = self._lock if isinstance(behind, FakeHdfs) else contextlib.nullcontext()
        self.cut_at, self.fail_at, self.done = -1, frozenset[int](), False
        self.is_dark, self.requests = False, 0
        self.before: Callable[[str], None] = lambda what: None
        """Told of each request before it is done."""

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._behind, name)

        def request(path: str, *given: Any, **more: Any) -> Any:
            return self._call(f"{name} {path}", lambda: real(path, *given, **more))

        return request

    def _call(self, what: str, work: Callable[[], T]) -> T:
        with self._lock:
            if self.is_dark:
                raise PowerCut
            number, self.requests = self.requests, self.requests + 1
        self.before(what)
        with self._one_by_one:
            if number == self.cut_at:
                self.is_dark = True
            elif number not in self.fail_at:
                return work()
            if self.done:
                with contextlib.suppress(OSError):
                    work()
            raise PowerCut if self.is_dark else OSError(SILENT)
