"""Files taken from one directory into another: by hard links, or by copies of what links hold fast meanwhile.

Retention deletes names, not what they name. So where links are possible at all, each file that is needed is linked at once,
into the copy or, when that is to have files of its own, into a hidden directory beside the original; copying can then take
as long as it takes. On storage without links the original is copied, and may be gone before.
"""

import contextlib
import errno
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from firesteel.adapters.spark.streams.snapshots.partials import partial_directory
from firesteel.adapters.spark.streams.snapshots.storefiles import Gone

COPY_THREADS = 8
"""Files that are copied at once: most of the time a copy waits until it is on the disk."""
_BLOCK_BYTES = 1 << 18
_NO_LINKS = frozenset(
    {errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EROFS}
)
"""What a file system says that has no links, or none between these two places."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A file of the copy."""

    size_bytes: int
    sha256: str
    """Of copied files, when it was asked for; a link is not read."""
    linked: bool


@dataclass(slots=True)
class Placing:
    """The making of one copy. `take` what is needed, `finish` once."""

    source: Path
    into: Path
    link: bool
    """Whether what is immutable may be linked into the copy."""
    digests: bool
    durable: bool
    """Whether what was copied or linked is on the disk when `finish` returns."""
    pins: Path | None = None
    """A directory on the file system of `source`; what is to be copied is linked there first."""
    _directories: set[str] = field(default_factory=set)
    _placed: dict[str, Placed] = field(default_factory=dict)
    _to_copy: dict[str, Path] = field(default_factory=dict)
    """Of files that are yet to be copied: where they are held."""

    def take(self, name: str, *, immutable: bool) -> None:
        """Hold a file fast. Raises Gone."""
        if name in self._placed or name in self._to_copy:
            return
        if self.link and immutable:
            if self._linked(self.into, name):
                self._placed[name] = Placed(os.stat(f"{self.into}/{name}").st_size, "", linked=True)
                return
            self.link = False
        if self.pins is not None and not self._linked(self.pins, name):
            self.pins = None
        if self.pins is None and not (self.source / name).exists():
            raise Gone(name)
        self._to_copy[name] = (self.pins or self.source) / name

    @property
    def taken(self) -> list[str]:
        """Names of what was taken, also if it could not be finished."""
        return [*self._placed, *self._to_copy]

    def size_of(self, name: str) -> int:
        """Of a file that was taken, in bytes."""
        placed = self._placed.get(name)
        return placed.size_bytes if placed else os.stat(self._to_copy[name]).st_size

    def held(self, name: str) -> Path:
        """Where a file that was taken can be read."""
        return self._to_copy.get(name, self.into / name)

    def write(self, name: str, data: bytes) -> None:
        """A file with a content of its own."""
        self._parent(self.into, name)
        with open(self.into / name, "wb") as file:
            file.write(data)
            if self.durable:
                file.flush()
                os.fsync(file.fileno())
        self._placed[name] = Placed(len(data), hashlib.sha256(data).hexdigest() if self.digests else "", linked=False)

    def finish(self) -> dict[str, Placed]:
        """Copy what was not linked. What is in the copy, by name. Raises Gone or OSError."""
        for name in self._to_copy:
            self._parent(self.into, name)
        with ThreadPoolExecutor(COPY_THREADS, thread_name_prefix="copy") as threads:
            copies = {name: threads.submit(self._copy, held, name) for name, held in self._to_copy.items()}
            linked = [name for name, placed in self._placed.items() if placed.linked and self.durable]
            try:
                list(threads.map(self._sync, [linked[first::COPY_THREADS] for first in range(COPY_THREADS)]))
                for name, copy in copies.items():
                    self._placed[name] = copy.result()
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                raise
        self._to_copy.clear()
        return dict(self._placed)

    def _linked(self, into: Path, name: str) -> bool:
        """Whether the file is linked there now; False when links are not possible. Raises Gone."""
        self._parent(into, name)
        try:
            os.link(f"{self.source}/{name}", f"{into}/{name}")
        except FileNotFoundError:
            raise Gone(name) from None
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return False
        return True

    def _parent(self, into: Path, name: str) -> None:
        parent = f"{into}/{name}".rpartition("/")[0]
        if parent not in self._directories:
            os.makedirs(parent, exist_ok=True)
            self._directories.add(parent)

    def _copy(self, held: Path, name: str) -> Placed:
        try:
            with open(held, "rb", buffering=0) as source, open(self.into / name, "xb", buffering=0) as copy:
                expected = os.fstat(source.fileno()).st_size
                digest = hashlib.sha256() if self.digests else None
                size = _copy_bytes(source.fileno(), copy.fileno(), digest.update if digest else None)
                if self.durable:
                    os.fsync(copy.fileno())
        except FileNotFoundError:
            raise Gone(name) from None
        if size != expected:
            raise Gone(name)  # it was changed meanwhile: not by Spark
        return Placed(size, digest.hexdigest() if digest else "", linked=False)

    def _sync(self, linked: Sequence[str]) -> None:
        """Have links on the disk, for which Spark has not waited."""
        for name in linked:
            file = os.open(f"{self.into}/{name}", os.O_RDONLY)
            try:
                os.fsync(file)
            finally:
                os.close(file)


@contextlib.contextmanager
def pins_beside(source: Path) -> Iterator[Path | None]:
    """A hidden directory inside `source`, which Spark does not look at; None where nothing can be written."""
    with contextlib.ExitStack() as stack:
        try:
            pins = stack.enter_context(partial_directory(source))
        except OSError:
            pins = None
        yield pins


def _copy_bytes(source: int, copy: int, tell: Callable[[memoryview], object] | None) -> int:
    size = 0
    if tell is None:
        while sent := os.sendfile(copy, source, size, 1 << 30):
            size += sent
        return size
    block = memoryview(bytearray(_BLOCK_BYTES))
    while got := os.readv(source, [block]):
        rest = block[:got]
        tell(rest)
        while rest:
            rest = rest[os.write(copy, rest) :]
        size += got
    return size
