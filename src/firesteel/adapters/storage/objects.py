"""The contract of a store of objects that several processes share: reads, and writes with a condition.

`S3Objects` is one; tests have another that fails and loses answers. Blocking: call from a thread.
"""

import contextlib
import errno
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from firesteel.adapters.storage.errors import Unusable


class Conflict(OSError):
    """Another process has written the object first; or this one has, and the answer was lost."""


@dataclass(frozen=True, slots=True)
class Version:
    """The content of an object, and what the store calls it."""

    data: bytes
    tag: str


@dataclass(frozen=True, slots=True)
class Listed:
    name: str
    size_bytes: int
    modified_ms: int
    """Time of its last write, by the store's clock."""


class Versions(Protocol):
    """What conditional writes take."""

    def get(self, name: str) -> Version:
        """Raises FileNotFoundError."""

    def put(self, name: str, data: bytes, after: str | None) -> str:
        """Write an object that is not there (`after` None) or has that tag; returns its tag. Raises Conflict."""


class Objects(Versions, Protocol):
    """Objects below one prefix, by name. Whoever reads after a write sees it, in listings too.

    Errors are OSErrors that name the object; after one, a write may have been done or not.
    """

    def files(self, prefix: str = "") -> list[str]:
        """Names, without the prefix, of the objects directly below: up to the next `/`; sorted."""

    def has(self, name: str) -> bool:
        """Whether there is such an object; nothing of it is read."""

    def listed(self, prefix: str) -> Iterator[Listed]:
        """All objects below, at any depth, with their whole names; sorted."""

    def upload(self, name: str, source: Path) -> None:
        """Write an object from a file, whatever is there; its time is that of now."""

    def download(self, name: str, target: Path) -> None:
        """Raises FileNotFoundError."""

    def delete(self, *names: str) -> None:
        """Delete objects; those that are not there are fine."""


def put_once(objects: Versions, name: str, data: bytes, after: str | None) -> str:
    """`put`, for data that nobody else writes there: when the answer was lost, what is there now tells.

    Raises Conflict, or OSError.
    """
    try:
        return objects.put(name, data, after)
    except OSError as error:
        try:
            found = objects.get(name)
        except OSError:
            raise error from None
        if found.data != data:
            raise
        return found.tag


def check_conditions(objects: Objects) -> None:
    """Raises OSError when the store can't be used: nobody answers, we may not, or it writes whatever the condition."""
    objects.files()
    name = f"probe-{uuid.uuid4().hex}"
    try:
        former = _replaced(objects, name)
        for condition, after in (("If-None-Match", None), ("If-Match", former)):
            with contextlib.suppress(Conflict):
                objects.put(name, b"3", after)
                raise OSError(
                    errno.ENOTSUP,
                    f"{objects} can't be used: it writes an object whatever {condition} says, so two masters could"
                    " overwrite one another. Take a store with conditional writes",
                )
        if name not in objects.files():
            raise OSError(errno.ENOTSUP, f"{objects} can't be used: its listings do not show what was just written")
    finally:
        objects.delete(name)


def _replaced(objects: Objects, name: str) -> str:
    """Write an object, and once more; the tag that it had before."""
    try:
        former = objects.put(name, b"1", None)
        objects.put(name, b"2", former)
    except Unusable:  # it says itself what to do
        raise
    except OSError as error:
        text = (
            f"{objects} can't be used: a conditional write failed there ({error}). Take a store with conditional writes"
        )
        raise OSError(errno.ENOTSUP, text) from None
    return former
