"""Directories in HDFS."""

import io
import posixpath
import uuid
from typing import BinaryIO

from firesteel.adapters.storage.directories import is_hidden
from firesteel.adapters.storage.hdfstree import TRIES_MAX, HdfsTree
from firesteel.adapters.storage.webhdfs import WebHdfs

END_BYTES = 1024 * 1024
"""Of a file whose end is wanted: a footer is seldom larger."""
AT_ONCE = 8


class HdfsDirectories:
    """`Directories` in one file system, by URIs."""

    def __init__(self, client: WebHdfs, *, patient: bool = True) -> None:
        self._client = client
        self._tree = HdfsTree(client, tries_max=TRIES_MAX if patient else 1)

    @property
    def at_once(self) -> int:
        return AT_ONCE

    def as_spark(self, location: str) -> str:
        return location

    def files(self, location: str) -> dict[str, int]:
        found: dict[str, int] = {}
        directories = [""]
        for directory in directories:  # grows meanwhile
            for each in self._tree.below(posixpath.join(location, directory)):
                name = posixpath.join(directory, each.name)
                if is_hidden(each.name):
                    continue
                if each.is_directory:
                    directories.append(name)
                else:
                    found[name] = each.size_bytes
        if not found and not self._tree.is_there(location):
            raise FileNotFoundError(
                f"{location}: what Spark has written there is not there for WebHDFS: does fs.hdfs.webhdfs-address name another"
                " HDFS?"
            )
        return found

    def sizes(self, location: str, names: tuple[str, ...]) -> dict[str, int]:
        return self._tree.sizes(location, names)

    def end_of(self, location: str, name: str) -> BinaryIO:
        path = posixpath.join(location, name)
        found = self._tree.status(path)
        if found is None:
            raise FileNotFoundError(f"{path} is not there")
        return io.BytesIO(self._tree.read_from(path, max(0, found.size_bytes - END_BYTES)))

    def read(self, location: str, name: str) -> bytes:
        return self._tree.read(posixpath.join(location, name))

    def write(self, location: str, name: str, data: bytes) -> None:
        self._tree.write(posixpath.join(location, name), data)

    def create(self, location: str, name: str, data: bytes) -> bytes:
        own = posixpath.join(location, f".{name}-{uuid.uuid4().hex}")
        self._tree.write(own, data)
        try:
            self._tree.rename_onto_nothing(own, posixpath.join(location, name))
        except FileExistsError:
            self._tree.remove(own)
        return self.read(location, name)

    def remove(self, location: str) -> None:
        self._tree.remove(location)
