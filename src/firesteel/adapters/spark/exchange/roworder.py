"""Whether a frame's rows have an order that whoever takes the first of them relies on: by a sort, or as they were made.

What is read of files has none: Spark itself reads them by size.
"""

import re
from collections.abc import Iterator
from typing import Any

from firesteel.adapters.spark.exchange.storedfiles import ORDERED_MARK
from firesteel.adapters.spark.internals import physical_plan_of, relation_of, relations

_ORDERED = re.compile(r"Sort \[.*\], true, \d+|TakeOrderedAndProject\(|LocalTableScan\b|Range \(")
_MAY_ORDER = tuple(
    f"spark.connect.{name}"
    for name in (
        *("LocalRelation", "CachedLocalRelation", "ChunkedCachedLocalRelation", "Range"),  # in their own order
        *("SQL", "Read.NamedTable", "CachedRemoteRelation"),  # it can't be seen here
    )
)
_NODE = re.compile(r"(?P<depth>[\s:|+\-]*)(?:\*\(\d+\) )?(?P<text>.*)")
_SCAN_OF_LIST = re.compile(r"Location: (MetadataLogFileIndex|StoredFiles)\b")


def may_be_ordered(frame: Any) -> bool:
    """Whether its plan sorts, or may do so where it can't be seen. Costs no question to Spark."""
    return any(_orders(message) for message in relations(relation_of(frame, frame.sparkSession.client)))


def is_ordered(frame: Any) -> bool:
    """Whether what computes its rows last is not behind a shuffle but has them from a sort of all, from Python, or from an
    ordered stored result.

    Asks Spark for the physical plan, which costs as much as planning the query.
    """
    reads_ordered = any(_reads_ordered(each) for each in relations(relation_of(frame, frame.sparkSession.client)))
    return any(
        _ORDERED.match(node) or (reads_ordered and _SCAN_OF_LIST.search(node))
        for node in _last_stage(physical_plan_of(frame).splitlines())
    )


def _orders(message: Any) -> bool:
    name = message.DESCRIPTOR.full_name
    sorts = name == "spark.connect.Sort" and message.is_global
    return sorts or name in _MAY_ORDER or _reads_ordered(message)


def _reads_ordered(message: Any) -> bool:
    is_read = message.DESCRIPTOR.full_name == "spark.connect.Read.DataSource"
    return is_read and any(f"/{ORDERED_MARK}-" in path for path in message.paths)


def _last_stage(lines: list[str]) -> Iterator[str]:
    """The nodes of an explained physical plan that are above every exchange."""
    skipped: int | None = None
    for line in lines:
        found = _NODE.match(line)
        if found is None or not found["text"]:
            continue
        depth = len(found["depth"])
        if skipped is not None and depth > skipped:
            continue
        skipped = depth if re.match(r"\w*Exchange\b", found["text"]) else None
        yield found["text"]
