"""Whether two outputs have the same rows: rows in, counts and samples out, in memory that follows what differs. Pure.

Without a key rows are counted as a multiset. With one, the rows of a key are compared as a whole; of an output that has
updates, those of its newest batch.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import msgspec

from firesteel.model.streams import QueryPosition

SAMPLES_MAX = 20
"""Rows or keys that are shown of what differs."""
ROWS_OF_A_KEY_MAX = 5
"""Rows that are shown of a key, of each side."""
_MODULUS = 1 << 128

Row = dict[str, Any]
BatchRow = tuple[int, Row]
"""A row, and the batch that wrote it."""
Rows = Callable[[], Iterator[BatchRow]]
"""Reads an output, each time from its beginning."""


class NoSuchKey(ValueError):
    """The caller's fault: rows have no column of that name."""


class Sample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that differs."""

    key: dict[str, Any] = {}
    first: list[Row] = []
    """Rows of the first output; so many at the most."""
    second: list[Row] = []


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Keys if there is a key, else rows."""

    first_rows: int
    second_rows: int
    equal: int
    different: int = 0
    """Keys that both have, with other rows."""
    only_first: int = 0
    only_second: int = 0
    samples: list[Sample] = []

    @property
    def is_same(self) -> bool:
        return not (self.different or self.only_first or self.only_second)


def common_point(first: Sequence[QueryPosition], second: Sequence[QueryPosition]) -> tuple[int, int] | None:
    """The newest batch of each after which both had read the same. None where there is none."""
    known = {position.read: position.batch for position in second}
    found = next((each for each in reversed(first) if each.read in known), None)
    return (found.batch, known[found.read]) if found is not None else None


def compare(first: Rows, second: Rows, key: Sequence[str] = (), *, has_updates: bool = False) -> Comparison:
    """Raises NoSuchKey."""
    return _by_key(first, second, key, has_updates) if key else _as_multisets(first, second)


def _as_multisets(first: Rows, second: Rows) -> Comparison:
    surplus: dict[bytes, int] = {}
    counts = [0, 0]
    for pair in zip_longest(first(), second()):  # side by side, so that what is equal is forgotten soon
        for side, found in enumerate(pair):
            if found is not None:
                counts[side] += 1
                _count(surplus, _digest(found[1]), -1 if side else 1)
    only_first = sum(count for count in surplus.values() if count > 0)
    return Comparison(
        first_rows=counts[0],
        second_rows=counts[1],
        equal=counts[0] - only_first,
        only_first=only_first,
        only_second=-sum(count for count in surplus.values() if count < 0),
        samples=[
            *(Sample(first=[row]) for row in _surplus_rows(first(), surplus, 1)),
            *(Sample(second=[row]) for row in _surplus_rows(second(), surplus, -1)),
        ],
    )


def _count(surplus: dict[bytes, int], digest: bytes, by: int) -> None:
    left = surplus.get(digest, 0) + by
    if left:
        surplus[digest] = left
    else:
        del surplus[digest]


def _surplus_rows(rows: Iterator[BatchRow], surplus: dict[bytes, int], sign: int) -> list[Row]:
    """Some of one side's rows that the other has fewer of."""
    found: list[Row] = []
    left = {digest: count * sign for digest, count in surplus.items() if count * sign > 0}
    for _, row in rows if left else ():
        digest = _digest(row)
        if left.get(digest, 0):
            left[digest] -= 1
            found.append(row)
            if len(found) == SAMPLES_MAX:
                break
    return found


@dataclass(slots=True)
class _OfKey:
    """One side's rows of a key: how many, the sum of their digests, and the batch they are of where only the newest counts."""

    count: int = 0
    total: int = 0
    batch: int = -1

    def add(self, batch: int, row: Row, *, has_updates: bool) -> None:
        if has_updates and batch > self.batch:
            self.count, self.total, self.batch = 0, 0, batch
        if not has_updates or batch == self.batch:
            self.count += 1
            self.total = (self.total + int.from_bytes(_digest(row))) % _MODULUS


@dataclass(slots=True)
class _BothOfKey:
    sides: tuple[_OfKey, _OfKey] = field(default_factory=lambda: (_OfKey(), _OfKey()))

    @property
    def is_equal(self) -> bool:
        first, second = self.sides
        return (first.count, first.total) == (second.count, second.total)


def _by_key(first: Rows, second: Rows, key: Sequence[str], has_updates: bool) -> Comparison:
    known: dict[bytes, _BothOfKey] = {}
    counts, seen, columns = [0, 0], set[str](), dict[str, None]()
    for side, rows in enumerate((first, second)):
        for batch, row in rows():
            counts[side] += 1
            if len(seen) < len(key):  # for who has named one that no row has
                columns |= dict.fromkeys(row)
            known.setdefault(_digest(key_of(row, key, seen)), _BothOfKey()).sides[side].add(
                batch, row, has_updates=has_updates
            )
    if known and (unknown := [name for name in key if name not in seen]):
        raise NoSuchKey(f"rows have no column {unknown[0]!r}; they have {', '.join(columns)}")
    differing = {digest: each for digest, each in known.items() if not each.is_equal}
    only_first = sum(not each.sides[1].count for each in differing.values())
    only_second = sum(not each.sides[0].count for each in differing.values())
    return Comparison(
        first_rows=counts[0],
        second_rows=counts[1],
        equal=len(known) - len(differing),
        different=len(differing) - only_first - only_second,
        only_first=only_first,
        only_second=only_second,
        samples=_samples((first, second), key, differing, has_updates),
    )


def _samples(
    sides: tuple[Rows, Rows], key: Sequence[str], differing: dict[bytes, _BothOfKey], has_updates: bool
) -> list[Sample]:
    """First those that both have."""
    ranked = sorted(differing, key=lambda digest: any(not each.count for each in differing[digest].sides))
    wanted: dict[bytes, Sample] = {}
    shown = dict.fromkeys(ranked[:SAMPLES_MAX])
    for side, rows in enumerate(sides) if shown else ():
        for batch, row in rows():
            found = key_of(row, key)
            digest = _digest(found)
            if digest not in shown or (has_updates and batch != differing[digest].sides[side].batch):
                continue
            sample = wanted.setdefault(digest, Sample(key=found, first=[], second=[]))
            of_side = sample.second if side else sample.first
            if len(of_side) < ROWS_OF_A_KEY_MAX:
                of_side.append(row)
    return [wanted[digest] for digest in shown if digest in wanted]


def key_of(row: Row, key: Iterable[str], seen: set[str] | None = None) -> Row:
    """The columns that a row is known by, None where it has none: JSON leaves out what is null. Dots are between the names of
    nested ones. Names that the row has are added to `seen`."""
    found: Row = {}
    for name in key:
        value: Any = row
        for part in (name,) if name in row else name.split("."):
            if not isinstance(value, dict) or part not in value:
                value = None
                break
            value = value[part]
        else:
            if seen is not None:
                seen.add(name)
        found[name] = value
    return found


def _digest(row: Row) -> bytes:
    return hashlib.blake2b(repr(sorted(row.items())).encode(errors="surrogatepass"), digest_size=16).digest()
