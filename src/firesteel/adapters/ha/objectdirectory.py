"""The files of a log as objects: what `Disk` is on a file system, on a store that has conditional writes.

An object can't be appended to. So a file is its object, and parts that follow it (`parts/<name>/<number>`); what is
appended goes into the last one, by writing that anew, until it has `PART_BYTES`.
"""

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from firesteel.adapters.ha.disk import TEMPORARY
from firesteel.adapters.storage.objects import Conflict, Objects, put_once

PART_BYTES = 1 << 16
"""Size of a part: most that an append writes again, beside what is new."""

READ_THREADS = 16


@dataclass(slots=True)
class _End:
    """The end of a file that this process appends to."""

    part: int
    """Number of the last part; 0 is the file's own object."""
    data: bytes
    tag: str


class ObjectDirectory:
    """A `Directory` below `prefix`. Blocking, for one thread at a time."""

    def __init__(self, objects: Objects, prefix: str, *, part_bytes: int = PART_BYTES) -> None:
        self._objects, self._prefix, self._part_bytes = objects, prefix, part_bytes
        self._prepared: dict[str, bytes] = {}
        self._numbers = itertools.count()
        self._ends: dict[str, _End] = {}

    def names(self) -> list[str]:
        return self._objects.files(self._prefix)

    def read(self, name: str) -> bytes:
        head = self._objects.get(self._prefix + name).data
        parts = self._parts(name)
        if not parts:
            return head
        with ThreadPoolExecutor(READ_THREADS, thread_name_prefix="read-parts") as threads:
            return head + b"".join(each.data for each in threads.map(self._objects.get, parts))

    def prepare(self, data: bytes) -> str:
        """Keep the data in memory: a store of objects has no disk that fills up."""
        name = f"{TEMPORARY}{next(self._numbers)}"
        self._prepared[name] = data
        return name

    def publish(self, prepared: str, name: str) -> None:
        self._create(name, self._prepared.pop(prepared))

    def create(self, name: str, data: bytes) -> None:
        self._ends[name] = _End(0, data, self._create(name, data))

    def append(self, name: str, data: bytes) -> None:
        """After an OSError all of it is in the file, or nothing."""
        end = self._ends.pop(name, None) or self._end(name)
        if end.data and len(end.data) + len(data) > self._part_bytes:
            end = _End(end.part + 1, data, put_once(self._objects, self._part(name, end.part + 1), data, None))
        else:
            grown = end.data + data
            end = _End(end.part, grown, put_once(self._objects, self._part(name, end.part), grown, end.tag))
        self._ends[name] = end

    def remove(self, name: str) -> None:
        """The parts first: a file that is not there has none."""
        self._ends.pop(name, None)
        if self._prepared.pop(name, None) is None:
            self._objects.delete(*self._parts(name))
            self._objects.delete(self._prefix + name)

    def _create(self, name: str, data: bytes) -> str:
        try:
            return put_once(self._objects, self._prefix + name, data, None)
        except Conflict as error:
            raise FileExistsError(str(error)) from None

    def _end(self, name: str) -> _End:
        """The end of a file that was created by a try that failed."""
        parts = self._parts(name)
        found = self._objects.get(parts[-1] if parts else self._prefix + name)
        return _End(len(parts), found.data, found.tag)

    def _parts(self, name: str) -> list[str]:
        folder = f"{self._prefix}parts/{name}/"
        return [folder + each for each in self._objects.files(folder)]

    def _part(self, name: str, number: int) -> str:
        return f"{self._prefix}parts/{name}/{number:08d}" if number else self._prefix + name
