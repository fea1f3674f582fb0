"""What the ends of files of rows tell."""

import io
import struct

import pytest

from firesteel.adapters.spark.exchange.forms import Counted, counted

BYTES = 24


def end_of(name: str) -> io.BytesIO:
    """Of a file of as many rows as its number says."""
    rows = int(name.partition(".")[0])
    return io.BytesIO(b"rows" + struct.pack(">iiqqiq", 3, 1, rows, BYTES * rows, 0, 0x4653524F57530003))


def test_all_of_some_are_asked() -> None:
    assert counted(end_of, ("5.rows", "0.rows", "7.rows")) == Counted(12, 12 * BYTES)


@pytest.mark.parametrize("files", [4_097, 5_000, 100_001])
def test_some_of_many_are_asked_for_about_the_bytes(files: int) -> None:
    asked: list[str] = []
    names = tuple(f"{n % 100}.rows" for n in range(files))

    def noted(name: str) -> io.BytesIO:
        asked.append(name)
        return end_of(name)

    found = counted(noted, names)
    assert found.rows == -1
    assert found.row_bytes == pytest.approx(sum(n % 100 for n in range(files)) * BYTES, rel=0.2)
    assert len(asked) < 300


def test_what_is_of_another_version_is_not_known() -> None:
    older = lambda name: io.BytesIO(bytes(28) + struct.pack(">q", 0x4653524F57530001))  # noqa: E731
    assert counted(older, ("1.rows",)) == Counted(-1, 0)
