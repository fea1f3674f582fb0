"""Row counts from Parquet footers: no Spark action, a bounded number of files."""

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO

MAX_FOOTERS = 256
"""Most files whose rows are counted: a footer costs 0.1 to 1 ms, in a bucket a request."""
THREADS = 8


def rows_of(open_file: Callable[[str], BinaryIO], files: Collection[str]) -> int:
    """Rows of `files`, wherever they are; -1 when there are too many files or one can't be read."""
    if len(files) > MAX_FOOTERS:
        return -1
    import pyarrow.parquet

    def count_one(name: str) -> int:
        with open_file(name) as file:
            return int(pyarrow.parquet.read_metadata(file).num_rows)

    try:
        if len(files) == 1:
            return sum(map(count_one, files))
        with ThreadPoolExecutor(THREADS, thread_name_prefix="read-footers") as threads:
            return sum(threads.map(count_one, files))
    except (OSError, ValueError):  # encrypted, or a codec pyarrow does not know
        return -1
