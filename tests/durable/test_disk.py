"""Whether a file system is one that masters can share: looked at when a master starts, beside one that begins to lead."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from firesteel.adapters.ha.disk import TEMPORARY, Disk


class Disturbed:
    """The operating system, in which somebody does something before each link."""

    def __init__(self, disturb: Callable[[], None]) -> None:
        self._disturb = disturb

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def link(self, source: str, target: str) -> None:
        self._disturb()
        os.link(source, target)


@pytest.mark.parametrize("before", [0, 1])
def test_who_begins_to_lead_sweeps_what_a_master_that_starts_looks_at(tmp_path: Path, before: int) -> None:
    """Before the first link, or between the first and the second."""
    links = iter(range(10))

    def sweep() -> None:
        if next(links) == before:
            for name in tmp_path.glob(f"{TEMPORARY}*"):
                name.unlink()

    Disk(tmp_path, Disturbed(sweep)).check()  # type: ignore[arg-type]
    assert next(links) > 2, "it was looked at again"
    assert not list(tmp_path.iterdir())


class Overwriting(Disturbed):
    """One whose links replace what is there."""

    def link(self, source: str, target: str) -> None:
        Path(target).unlink(missing_ok=True)
        os.link(source, target)


def test_a_file_system_that_creates_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="created twice"):
        Disk(tmp_path, Overwriting(lambda: None)).check()  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())
