"""A store of objects in memory that fails, or loses its answer, at any call."""

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from firesteel.adapters.storage.objects import Conflict, Listed, Version
from firesteel.testing.power import Plan, PowerCut

T = TypeVar("T")


@dataclass
class FakeObjects:
    """`plan` is used up by the call it is for: what happens is before that call is done, or after."""

    chance: random.Random
    plan: Plan | None = None
    contents: dict[str, Version] = field(default_factory=dict)
    is_dark: bool = False
    _tags: "itertools.count[int]" = field(default_factory=itertools.count)

    def __str__(self) -> str:
        return "s3://bucket/"

    @property
    def names(self) -> list[str]:
        return list(self.contents)

    # ── what goes wrong ──────────────────────────────────────────────────────────────────────
    def fill_up(self) -> None:
        raise OSError("503 SlowDown")

    def cut(self) -> None:
        self.is_dark = True
        raise PowerCut

    def restart(self) -> None:
        self.is_dark, self.plan = False, None

    def _call(self, work: Callable[[], T]) -> T:
        if self.is_dark:
            raise PowerCut
        plan = None
        if self.plan is not None:
            self.plan.at -= 1
            if self.plan.at < 0:
                plan, self.plan = self.plan, None
        if plan is not None and self.chance.random() < 0.5:
            plan.action()
            plan = None
        done = work()
        if plan is not None:
            plan.action()
        return done

    # ── Objects ──────────────────────────────────────────────────────────────────────────────
    def get(self, name: str) -> Version:
        def read() -> Version:
            if name not in self.contents:
                raise FileNotFoundError(name)
            return self.contents[name]

        return self._call(read)

    def put(self, name: str, data: bytes, after: str | None) -> str:
        def write() -> str:
            known = self.contents.get(name)
            if (known.tag if known is not None else None) != after:
                raise Conflict(name)
            self.contents[name] = Version(data, str(next(self._tags)))
            return self.contents[name].tag

        return self._call(write)

    def files(self, prefix: str = "") -> list[str]:
        return self._call(lambda: self._files(prefix))

    def _files(self, prefix: str) -> list[str]:
        below = [name.removeprefix(prefix) for name in self.contents if name.startswith(prefix)]
        return sorted(name for name in below if "/" not in name)

    def has(self, name: str) -> bool:
        return self._call(lambda: name in self.contents)

    def listed(self, prefix: str) -> Iterator[Listed]:
        for name in sorted(name for name in self.contents if name.startswith(prefix)):
            yield Listed(name, len(self.contents[name].data), 0)

    def upload(self, name: str, source: Path) -> None:
        self.contents[name] = Version(source.read_bytes(), str(next(self._tags)))

    def download(self, name: str, target: Path) -> None:
        target.write_bytes(self.get(name).data)

    def delete(self, *names: str) -> None:
        for name in names:
            self._call(lambda name=name: self.contents.pop(name, None))  # type: ignore[misc]
