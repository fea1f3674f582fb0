"""A file system in memory that fails, fills up and loses power at any call; it implements adapters.ha.disk.System.

What was synced survives a power cut. Of what was not, any part may be there: files torn or with holes of
zeros, names that are not there yet, names that are there again.
"""

import errno
import itertools
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field

PAGE = 16
"""Bytes that reach the disk together: few, so that the small files of tests are torn in many ways."""


class PowerCut(BaseException):
    """Whoever is at work just stops."""


@dataclass(eq=False)
class Inode:
    content: bytes = b""
    synced: bytes = b""


@dataclass
class Plan:
    """What happens at one of the next calls: the one with number `at`, counted from 0."""

    at: int
    action: Callable[[], object]


@dataclass
class FakeSystem:
    """One directory. `plan` is used up by the call it is for."""

    chance: random.Random
    plan: Plan | None = None
    meddle: Callable[[], object] | None = None
    """Done before every call."""
    names: dict[str, Inode] = field(default_factory=dict)
    synced_names: dict[str, Inode] = field(default_factory=dict)
    is_dark: bool = False
    calls: int = 0
    _open: dict[int, tuple[Inode | None, list[int]]] = field(default_factory=dict)
    _descriptors: "itertools.count[int]" = field(default_factory=lambda: itertools.count(3))
    _unique: "itertools.count[int]" = field(default_factory=itertools.count)

    def urandom(self, size: int) -> bytes:
        """Other bytes each time, and the same in each run."""
        return next(self._unique).to_bytes(size)

    # ── what goes wrong ──────────────────────────────────────────────────────────────────────
    def fill_up(self) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def cut(self) -> None:
        self.is_dark = True
        raise PowerCut

    def restart(self) -> None:
        """The power is back: what is on the disk is what there is."""
        self.is_dark = False
        self.plan = None
        self._open.clear()
        for name in dict.fromkeys((*self.synced_names, *self.names)):
            now, then = self.names.get(name), self.synced_names.get(name)
            kept = self.chance.choice((now, then))
            if kept is None:
                self.names.pop(name, None)
            else:
                self.names[name] = kept
        for inode in self.names.values():
            inode.content = inode.synced = self._torn(inode)
        self.synced_names = dict(self.names)

    def _torn(self, inode: Inode) -> bytes:
        assert inode.content.startswith(inode.synced), "files only grow"
        new = inode.content[len(inode.synced) :]
        new = new[: self.chance.randint(0, len(new))] if self.chance.random() < 0.7 else new
        pages = [new[begin : begin + PAGE] for begin in range(0, len(new), PAGE)]
        with_holes = self.chance.random() < 0.5
        return inode.synced + b"".join(
            bytes(len(page)) if with_holes and self.chance.random() < 0.5 else page for page in pages
        )

    def _call(self) -> None:
        if self.is_dark:
            raise PowerCut
        self.calls += 1
        if self.meddle is not None:
            self.meddle()
        if self.plan is not None:
            self.plan.at -= 1
            if self.plan.at < 0:
                plan, self.plan = self.plan, None
                plan.action()

    # ── System ───────────────────────────────────────────────────────────────────────────────
    def open(self, path: str, flags: int, mode: int = 0o600) -> int:
        self._call()
        name = os.path.basename(path)
        descriptor = next(self._descriptors)
        if name == "disk":
            self._open[descriptor] = (None, [0])
            return descriptor
        if flags & os.O_CREAT:
            assert flags & os.O_EXCL
            assert name not in self.names
            self.names[name] = Inode()
        if name not in self.names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self._open[descriptor] = (self.names[name], [0])
        return descriptor

    def write(self, descriptor: int, data: memoryview, /) -> int:
        inode, _ = self._open[descriptor]
        assert inode is not None
        part = bytes(data[: self.chance.randint(1, len(data))])
        try:
            self._call()
        except OSError:
            inode.content += part[: self.chance.randint(0, len(part))]
            raise
        inode.content += part
        return len(part)

    def fsync(self, descriptor: int) -> None:
        self._call()
        inode, _ = self._open[descriptor]
        if inode is None:
            self.synced_names = dict(self.names)
        else:
            inode.synced = inode.content

    def close(self, descriptor: int) -> None:
        self._open.pop(descriptor, None)

    def link(self, source: str, target: str) -> None:
        self._call()
        if os.path.basename(target) in self.names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        if os.path.basename(source) not in self.names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        self.names[os.path.basename(target)] = self.names[os.path.basename(source)]

    def unlink(self, path: str) -> None:
        self._call()
        if os.path.basename(path) not in self.names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        del self.names[os.path.basename(path)]

    def listdir(self, path: str) -> list[str]:
        self._call()
        return list(self.names)

    def read(self, descriptor: int, length: int) -> bytes:
        self._call()
        inode, place = self._open[descriptor]
        assert inode is not None
        data = inode.content[place[0] : place[0] + length]
        place[0] += len(data)
        return data
