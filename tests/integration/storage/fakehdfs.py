"""An HDFS in memory, with the requests of `WebHdfs` and what a NameNode answers; any request may be the last, or lost."""

import itertools
import posixpath
import random
from typing import TypeVar

from firesteel.adapters.storage.hdfstree import BY_ID
from firesteel.adapters.storage.webhdfs import Status

T = TypeVar("T")

ROOT = ""


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
        self._random = random.Random(seed)

    def uri(self, path: str) -> str:
        return f"hdfs://nn:8020{path}"

    def status(self, path: str) -> Status | None:
        self._begin()
        return self._end(self._status(path) if path in self.entries else None)

    def listed(self, path: str) -> list[Status]:
        self._begin()
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
        if old.startswith(BY_ID):
            number = int(old.rpartition("/")[2])
            old = next((path for path, entry in self.entries.items() if entry[0] == number), old)
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
        below = self._below(path)
        if below and not recursive:
            raise FileExistsError(path)
        found = [self.entries.pop(each, None) for each in (*below, path)]
        return self._end(any(found))

    def write(self, path: str, data: bytes) -> None:
        self._begin()
        self._make(posixpath.dirname(path))
        self.entries[path] = (next(self._ids), data)
        self._end(None)

    def read(self, path: str, offset: int = 0) -> bytes:
        self._begin()
        found = self.entries.get(path, (0, None))[1]
        if found is None:
            raise FileNotFoundError(path)
        return self._end(found[offset:])

    def _make(self, path: str) -> None:
        steps = path.split("/")
        for end in range(2, len(steps) + 1):
            entry = self.entries.setdefault("/".join(steps[:end]), (next(self._ids), None))
            if entry[1] is not None:
                raise FileExistsError(path)

    def _status(self, path: str) -> Status:
        number, content = self.entries[path]
        return Status(posixpath.basename(path), content is None, len(content or b""), number)

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
