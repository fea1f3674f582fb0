"""A bucket in memory that fails, loses its answer, or is the last thing that its caller sees, at any request."""

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from firesteel.adapters.storage.keys import Found
from firesteel.adapters.storage.objects import Conflict, Version
from firesteel.testing.power import PowerCut

T = TypeVar("T")


class Time:
    """A clock that waiting puts forward."""

    def __init__(self) -> None:
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class FakeKeys:
    """`cut_at`, `fail_at`: the request of that number, from now on, is the last, or fails; done before that if `done`.

    Requests for names that end with `.lock` are not counted: a thread of its own makes them.
    """

    contents: dict[str, Version] = field(default_factory=dict)
    uploads: list[str] = field(default_factory=list)
    """Keys of uploads in parts that were begun and not ended."""
    cut_at: int = -1
    fail_at: frozenset[int] = frozenset()
    done: bool = False
    error: Callable[[], OSError] = lambda: OSError("503 SlowDown")
    requests: int = 0
    asked: list[str] = field(default_factory=list)
    is_dark: bool = False
    before: Callable[[str], None] = lambda what: None
    """Told of each request that is counted, before it is done."""
    _tags: "itertools.count[int]" = field(default_factory=itertools.count)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def restart(self) -> None:
        self.cut_at, self.fail_at, self.requests, self.is_dark = -1, frozenset(), 0, False

    def uri(self, key: str) -> str:
        return f"s3://bucket/{key}"

    def texts(self, prefix: str) -> list[str]:
        """What a reader sees below the prefix: contents of the data files."""
        below = (name for name in self.contents if name.startswith(prefix) and name.endswith(".parquet"))
        return sorted(self.contents[name].data.decode() for name in below)

    def _call(self, what: str, name: str, work: Callable[[], T]) -> T:
        with self._lock:
            if self.is_dark:
                raise PowerCut
            if name.endswith(".lock"):
                return work()
            number, self.requests = self.requests, self.requests + 1
            self.asked.append(f"{what} {name}")
        self.before(f"{what} {name}")
        with self._lock:
            if number == self.cut_at:
                self.is_dark = True
                with contextlib.suppress(OSError):
                    self.done and work()
                raise PowerCut
            if number in self.fail_at:
                with contextlib.suppress(OSError):
                    self.done and work()
                raise self.error()
            return work()

    def _write(self, name: str, data: bytes) -> str:
        self.contents[name] = Version(data, str(next(self._tags)))
        return self.contents[name].tag

    # ── Keys ─────────────────────────────────────────────────────────────────────────────────
    def get(self, name: str) -> Version:
        def read() -> Version:
            if name not in self.contents:
                raise FileNotFoundError(name)
            return self.contents[name]

        return self._call("get", name, read)

    def get_range(self, name: str, begin: int, end: int) -> bytes:
        def read() -> bytes:
            if name not in self.contents:
                raise FileNotFoundError(name)
            return self.contents[name].data[begin:end]

        return self._call("get", name, read)

    def put(self, name: str, data: bytes, after: str | None) -> str:
        def write() -> str:
            known = self.contents.get(name)
            if (known.tag if known is not None else None) != after:
                raise Conflict(name)
            return self._write(name, data)

        return self._call("put", name, write)

    def write(self, name: str, data: bytes) -> None:
        self._call("write", name, lambda: self._write(name, data))

    def upload(self, name: str, source: Path) -> None:
        self._call("upload", name, lambda: self._write(name, source.read_bytes()))

    def found(self, prefix: str, *, at_most: int = 0) -> Iterator[Found]:
        def listed() -> list[Found]:
            names = sorted(name for name in self.contents if name.startswith(prefix))
            return [Found(name, len(self.contents[name].data)) for name in names][: at_most or None]

        return iter(self._call("list", prefix, listed))

    def steps(self, prefix: str) -> list[str]:
        def listed() -> list[str]:
            below = (name.removeprefix(prefix) for name in sorted(self.contents) if name.startswith(prefix))
            return list(dict.fromkeys(name.partition("/")[0] for name in below if "/" in name))

        return self._call("list", prefix, listed)

    def copy(self, source: str, target: str, size_bytes: int, check: Callable[[], None]) -> None:
        def copied() -> None:
            if source not in self.contents:
                raise FileNotFoundError(source)
            assert len(self.contents[source].data) == size_bytes
            self._write(target, self.contents[source].data)

        self._call("copy", target, copied)

    def delete(self, names: Iterable[str]) -> None:
        given = list(names)

        def deleted() -> None:
            for name in given:
                self.contents.pop(name, None)

        self._call("delete", given[0] if given else "nothing", deleted)

    def abort_uploads(self, prefix: str, infix: str = "") -> None:
        def aborted() -> None:
            self.uploads = [key for key in self.uploads if not (key.startswith(prefix) and infix in key)]

        self._call("abort", prefix, aborted)
