"""Directories in a bucket: what keys have before a `/`."""

import io
import posixpath
from typing import BinaryIO

from firesteel.adapters.storage.directories import is_hidden
from firesteel.adapters.storage.keys import Keys
from firesteel.adapters.storage.objectcommit import key_of, remove_staged
from firesteel.adapters.storage.objects import Conflict, put_once
from firesteel.adapters.storage.schemes import bucket_and_path, scheme_of

END_BYTES = 1024 * 1024
"""Of a file whose end is wanted: a footer is seldom larger."""
AT_ONCE = 16


class ObjectDirectories:
    """`Directories` in one bucket, by URIs."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    @property
    def at_once(self) -> int:
        return AT_ONCE

    def as_spark(self, location: str) -> str:
        return f"{scheme_of(location).spark}://{'/'.join(bucket_and_path(location))}"

    def files(self, location: str) -> dict[str, int]:
        found = self._below(f"{key_of(location)}/", "")
        return {name: size for name, size in found.items() if not any(map(is_hidden, name.split("/")))}

    def sizes(self, location: str, names: tuple[str, ...]) -> dict[str, int]:
        directories = {posixpath.dirname(name) for name in names}
        only = (
            directories.pop() if len(directories) == 1 else ""
        )  # what one consumer reads of one producer: one listing
        found = self._below(f"{key_of(location)}/", only and f"{only}/")
        return {name: found[name] for name in names if name in found}

    def end_of(self, location: str, name: str) -> BinaryIO:
        key = f"{key_of(location)}/{name}"
        (found,) = self._keys.found(key, at_most=1)
        return io.BytesIO(self._keys.get_range(key, max(0, found.size_bytes - END_BYTES), found.size_bytes))

    def read(self, location: str, name: str) -> bytes:
        return self._keys.get(f"{key_of(location)}/{name}").data

    def write(self, location: str, name: str, data: bytes) -> None:
        self._keys.write(f"{key_of(location)}/{name}", data)

    def create(self, location: str, name: str, data: bytes) -> bytes:
        key = f"{key_of(location)}/{name}"
        try:
            put_once(self._keys, key, data, None)
        except Conflict:
            return self._keys.get(key).data
        return data

    def remove(self, location: str) -> None:
        remove_staged(self._keys, key_of(location))

    def _below(self, root: str, prefix: str) -> dict[str, int]:
        """Objects whose keys begin with both: sizes by what follows `root`. Those that stand for directories are none."""
        found = ((each.key.removeprefix(root), each.size_bytes) for each in self._keys.found(root + prefix))
        return {name: size for name, size in found if name and name[-1] != "/"}
