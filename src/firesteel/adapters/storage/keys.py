"""The contract of a bucket as sinks need it: whole keys as the store has them, copies within it, conditional writes.

`S3Keys` is one; tests have another that fails and loses answers. Blocking: call from a thread.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from firesteel.adapters.storage.objects import Version, Versions
from firesteel.adapters.storage.patience import tried

T = TypeVar("T")


class Found(NamedTuple):
    """An object in a listing."""

    key: str
    size_bytes: int


class Keys(Versions, Protocol):
    """Objects of one bucket. Whoever reads after a write sees it, in listings too; an object is there whole or not at all.

    Errors are OSErrors that name the URI, `Unusable` when the store says no for good. After one, what was asked for may
    have been done or not.
    """

    def uri(self, key: str) -> str:
        """How the object is named to a person."""

    def get_range(self, name: str, begin: int, end: int) -> bytes:
        """The bytes from `begin` up to `end`."""

    def write(self, name: str, data: bytes) -> None:
        """Write an object, whatever is there."""

    def upload(self, name: str, source: Path) -> None:
        """Write an object from a file, whatever is there; of a large one in parts."""

    def found(self, prefix: str, *, at_most: int = 0) -> Iterator[Found]:
        """Objects whose keys begin so, at any depth, sorted; the first `at_most` of them, if it is not 0."""

    def steps(self, prefix: str) -> list[str]:
        """What stands between `prefix`, which ends with a `/`, and the next `/` in the keys that have one."""

    def copy(self, source: str, target: str, size_bytes: int, check: Callable[[], None]) -> None:
        """Copy within the store. `check` is called between the parts of a large one. Raises FileNotFoundError."""

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; those that are not there are fine."""

    def abort_uploads(self, prefix: str, infix: str = "") -> None:
        """Give up uploads in parts that were begun, to keys that begin so and have `infix` in them."""


class Patient:
    """`Keys` that tries again what a busy store or a network has failed. Before each try `check` may say no."""

    def __init__(self, keys: Keys, check: Callable[[], None], wait: Callable[[float], None] = time.sleep) -> None:
        self._keys, self._check, self._wait = keys, check, wait

    def uri(self, key: str) -> str:
        return self._keys.uri(key)

    def get(self, name: str) -> Version:
        return self._tried(lambda: self._keys.get(name))

    def get_range(self, name: str, begin: int, end: int) -> bytes:
        return self._tried(lambda: self._keys.get_range(name, begin, end))

    def put(self, name: str, data: bytes, after: str | None) -> str:
        return self._tried(lambda: self._keys.put(name, data, after))

    def write(self, name: str, data: bytes) -> None:
        self._tried(lambda: self._keys.write(name, data))

    def upload(self, name: str, source: Path) -> None:
        self._tried(lambda: self._keys.upload(name, source))

    def found(self, prefix: str, *, at_most: int = 0) -> Iterator[Found]:
        return iter(self._tried(lambda: list(self._keys.found(prefix, at_most=at_most))))

    def steps(self, prefix: str) -> list[str]:
        return self._tried(lambda: self._keys.steps(prefix))

    def copy(self, source: str, target: str, size_bytes: int, check: Callable[[], None]) -> None:
        self._tried(lambda: self._keys.copy(source, target, size_bytes, check))

    def delete(self, names: Iterable[str]) -> None:
        given = list(names)
        self._tried(lambda: self._keys.delete(given))

    def abort_uploads(self, prefix: str, infix: str = "") -> None:
        self._tried(lambda: self._keys.abort_uploads(prefix, infix))

    def _tried(self, call: Callable[[], T]) -> T:
        return tried(call, self._check, self._wait)
