"""The two forms of files of stored results: Spark's own rows, and Parquet.

Rows cost less to write and read than columns; a data source of ours does it (`jvm/results/StoredRows.java`). Parquet can be
read wherever there is Spark, and is smaller: for tasks that run elsewhere than in a JVM of ours, and for storages at the other
end of a wire.
"""

import io
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import BinaryIO, NamedTuple

from firesteel.adapters.spark.exchange import footers

_END = struct.Struct(">iiqqiq")
"""End of a file of rows: fields of a row, blocks, rows, their bytes, checksum, mark."""
_MARKS = (0x4653524F57530003, 0x4653524F57530004)
"""By the byte order of the machine that wrote it."""
_MAX_ENDS, _SAMPLE = 4_096, 256
"""Most files of rows whose ends are read, 20 to 50 µs each, and how many of more: they are on a disk or mounted."""


class Form(NamedTuple):
    source: str
    """As Spark names it."""
    suffix: str
    """Of its files."""


ROWS = Form("firesteel.StoredRows", ".rows")
PARQUET = Form("parquet", ".parquet")
_FORMS = (ROWS, PARQUET)


def form_of(name: str) -> Form | None:
    """The form of a file, by its name; None for what is no file of a stored result."""
    return next((form for form in _FORMS if name.endswith(form.suffix)), None)


def may_be_counted(names: Iterable[str]) -> bool:
    """Whether the rows of so many files are worth counting."""
    found = list(map(form_of, names))
    return len(found) <= (_MAX_ENDS if all(form is ROWS for form in found) else footers.MAX_FOOTERS)


class Counted(NamedTuple):
    rows: int = -1
    """-1 when they can't be counted, or there are too many files to ask."""
    row_bytes: int = 0
    """What they have in memory, about that when there are too many files to ask, 0 when it is not known."""


def counted(open_file: Callable[[str], BinaryIO], names: tuple[str, ...]) -> Counted:
    """What files of one form hold."""
    if not may_be_counted(names):
        sample = names[:: len(names) // _SAMPLE]
        part = counted(open_file, sample) if form_of(names[0]) is ROWS else Counted()
        return Counted(row_bytes=part.row_bytes * len(names) // len(sample))
    if not any(form_of(name) is ROWS for name in names):
        return Counted(footers.rows_of(open_file, names))

    def count(name: str) -> Counted:
        with open_file(name) as file:
            file.seek(-_END.size, io.SEEK_END)
            *_, rows, row_bytes, _, mark = _END.unpack(file.read())
            return Counted(rows, row_bytes) if mark in _MARKS else Counted()

    try:
        counts = list(map(count, names))
    except (OSError, struct.error):
        return Counted()
    return Counted() if min(counts).rows < 0 else Counted(*map(sum, zip(*counts, strict=True)))


def by_form(sizes: Mapping[str, int]) -> dict[Form, dict[str, int]]:
    """Files by their form, in their order."""
    found: dict[Form, dict[str, int]] = {}
    for name, size in sizes.items():
        form = form_of(name)
        assert form is not None, "a manifest names nothing else"
        found.setdefault(form, {})[name] = size
    return found
