"""Which files of a checkpoint the point after a committed batch consists of. Pure: a listing and what logs say in, names out.

The point after batch N: `metadata`; offsets of N and of the batch before, which a restart reads; the commit of N; of file
sources the log up to where N has read it, from its newest `.compact` on; of each operator's stores version N + 1. Offsets
and commits of older batches are *history*: taken as far as they are there, for what reads state of older points.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from firesteel.adapters.spark.streams.snapshots.checkpointlog import (
    COMPACT_SUFFIX,
    CommitEntry,
    OffsetEntry,
    Operator,
    batch_of,
)
from firesteel.adapters.spark.streams.snapshots.listing import OFFSETS, STATE, Listing
from firesteel.adapters.spark.streams.snapshots.storefiles import Gone, LineageOf, version_files

METADATA, COMMITS, SOURCES = "metadata", "commits", "sources"
_KNOWN = frozenset({METADATA, OFFSETS, COMMITS, SOURCES, STATE})
_DEFAULT_STORE = "default"
_OPERATOR_METADATA = "_metadata"
_VERSIONED = "v2"
_STATE_SCHEMA = "_stateSchema"


class Kind(Enum):
    """How a file gets into the copy."""

    IMMUTABLE = "immutable"
    """Spark writes it under another name, renames it and never touches it again: a hard link is as good as a copy."""
    OTHER = "other"
    """Written by who knows whom (a source of the user's), or wanted with another content: only a copy is safe."""
    RELOCATED = "relocated"
    """Names files of the checkpoint by absolute paths: a copy with these changed."""
    PRETENDED = "pretended"
    """Not in the checkpoint: what `pretended_compaction` names, with a heading and nothing else."""


@dataclass(frozen=True, slots=True)
class PointFile:
    path: str
    kind: Kind = Kind.IMMUTABLE
    needed: bool = True
    """Without it the point is not whole. Others are left out when they have gone."""


@dataclass(frozen=True, slots=True)
class PointFacts:
    """What the logs say about a point."""

    batch: int
    offset: OffsetEntry
    commit: CommitEntry
    operators: Mapping[str, Operator]
    """By their directories below `state`."""


def kind_of(path: str) -> Kind:
    """Of a file of a checkpoint."""
    steps = path.split("/")
    if steps[0] == STATE:
        return Kind.RELOCATED if steps[2:4] == [_OPERATOR_METADATA, _VERSIONED] else Kind.IMMUTABLE
    return Kind.IMMUTABLE if steps[0] in (OFFSETS, COMMITS) else Kind.OTHER


def operator_metadata(listing: Listing, operator: str, batch: int) -> str:
    """The path of what is said about an operator, as of `batch`. Raises Gone."""
    directory = f"{STATE}/{operator}/{_OPERATOR_METADATA}"
    written = [int(name) for name in listing.files(f"{directory}/{_VERSIONED}") if (batch_of(name) or 0) <= batch]
    if written:
        return f"{directory}/{_VERSIONED}/{max(written)}"
    if METADATA in listing.files(directory):
        return f"{directory}/{METADATA}"
    raise Gone(f"{directory}/{METADATA}")


def operators_of(listing: Listing) -> list[str]:
    """Directories of stateful operators below `state`."""
    return sorted((name for name in listing.below(STATE) if name.isdigit()), key=int)


def point_files(listing: Listing, facts: PointFacts, lineage_of: LineageOf) -> list[PointFile]:
    """In the order in which they are best taken: what retention deletes first is first. `lineage_of` is asked by a path.
    Files that RocksDB's snapshots name are not among them. Raises Gone."""
    state = list(_state(listing, facts, lineage_of))
    logs = [*_offsets(listing, facts.batch), *_commits(listing, facts.batch), *_sources(listing, facts)]
    others = [PointFile(METADATA, Kind.OTHER)] if METADATA in listing.files("") else []
    others += [PointFile(name, Kind.OTHER) for name in listing.files("") if name not in _KNOWN]
    for directory in listing.below(""):
        if directory not in _KNOWN:
            others += [PointFile(path, Kind.OTHER, needed=False) for path in listing.everything(directory)]
    return state + logs + others


def _state(listing: Listing, facts: PointFacts, lineage_of: LineageOf) -> Iterator[PointFile]:
    for name, operator in facts.operators.items():
        ids = facts.commit.unique_ids.get(name, ())
        for partition in range(operator.partitions):
            for place, store in enumerate(operator.stores):
                directory = f"{STATE}/{name}/{partition}" + ("" if store == _DEFAULT_STORE else f"/{store}")
                unique_id = ids[partition][place] if ids else ""
                yield from _store(listing, directory, (facts.batch + 1, unique_id), lineage_of)
        yield from _about_operator(listing, name, operator, facts.batch)


def _store(listing: Listing, directory: str, wanted: tuple[int, str], lineage_of: LineageOf) -> Iterator[PointFile]:
    try:
        names = version_files(listing.files(directory), *wanted, lambda name: lineage_of(f"{directory}/{name}"))
    except Gone as gone:
        raise Gone(f"{directory}/{gone.path}") from None
    yield from (PointFile(f"{directory}/{name}") for name in names)
    yield from (PointFile(path) for path in listing.everything(f"{directory}/{_OPERATOR_METADATA}"))


def _about_operator(listing: Listing, name: str, operator: Operator, batch: int) -> Iterator[PointFile]:
    about = operator_metadata(listing, name, batch)
    directory = f"{STATE}/{name}"
    versions = f"{directory}/{_OPERATOR_METADATA}/{_VERSIONED}"
    for path in listing.everything(f"{directory}/{_OPERATOR_METADATA}"):
        if not path.startswith(f"{versions}/"):
            yield PointFile(path, needed=path == about)
        elif (batch_of(path.rpartition("/")[2]) or 0) <= batch:
            yield PointFile(path, kind_of(path), needed=path == about)
    schemas = f"{directory}/{_STATE_SCHEMA}"
    for path in listing.everything(schemas):
        yield PointFile(path, needed=path.removeprefix(f"{schemas}/") in operator.schemas)


def _offsets(listing: Listing, batch: int) -> Iterator[PointFile]:
    written = _numbered(listing.files(OFFSETS))
    if batch not in written:
        raise Gone(f"{OFFSETS}/{batch}")
    # A restart reads the batch before, too. A log that leaves batches out (asynchronous progress) has none; where a newer
    # batch than the one in flight is there, it may be that retention was faster.
    if batch and batch - 1 not in written and batch == min(written) and max(written) > batch + 1:
        raise Gone(f"{OFFSETS}/{batch - 1}")
    yield from _up_to(OFFSETS, written, batch, needed={batch - 1, batch})


def _commits(listing: Listing, batch: int) -> Iterator[PointFile]:
    written = _numbered(listing.files(COMMITS))
    if batch not in written:
        raise Gone(f"{COMMITS}/{batch}")
    yield from _up_to(COMMITS, written, batch, needed={batch})


def _up_to(directory: str, written: Mapping[int, str], batch: int, needed: Iterable[int]) -> Iterator[PointFile]:
    wanted = frozenset(needed)
    for number in sorted(written, reverse=True):
        if number <= batch:
            yield PointFile(f"{directory}/{written[number]}", needed=number in wanted)


def _sources(listing: Listing, facts: PointFacts) -> Iterator[PointFile]:
    for name in listing.below(SOURCES):
        directory = f"{SOURCES}/{name}"
        end = facts.offset.log_ends.get(name)
        if end is None:
            yield from (PointFile(path, Kind.OTHER, needed=False) for path in listing.everything(directory))
        else:
            names = log_files(listing.files(directory), end, directory)
            yield from (PointFile(f"{directory}/{each}") for each in names)
            yield from (PointFile(f"{directory}/{each}", Kind.PRETENDED) for each in pretended_compaction(names))


def log_files(names: Iterable[str], end: int, directory: str) -> list[str]:
    """Of a log that is compacted now and then, what its entries up to `end` are in. Raises Gone."""
    written = _numbered(names)
    compacted = [number for number, name in written.items() if name.endswith(COMPACT_SUFFIX) and number <= end]
    start = max(compacted, default=0)
    for number in range(start, end + 1):
        if number not in written:
            raise Gone(f"{directory}/{number}")
    if start == end < max(written) and end + 1 not in written:  # it may be one that is pretended
        raise Gone(f"{directory}/{end}")
    return [written[number] for number in range(start, end + 1)]


LOG_HEADING = "v1"
"""All that is in a file of a log without entries."""
_COMPACT_INTERVAL = 10
"""Spark's default. A longer interval that the session sets is found by Spark itself."""


def pretended_compaction(names: Sequence[str]) -> list[str]:
    """What has to be in a copy of a log, of which these files are taken, beside them: the name of one, or of none.

    Spark looks for compactions at the distance of the two newest. Where there is only one, which is all that is read, it takes the
    smallest divisor of its number that is not below the default, and misses one that the log never had when it was
    compacted more seldom: after 39.compact it looks for 49.compact, though the next is 59 (`CompactibleFileStreamLog`,
    `deriveCompactInterval`). So the copy has a second one, at a distance that fits.
    """
    compacted, end = batch_of(names[0]) or 0, batch_of(names[-1]) or 0
    if not names[0].endswith(COMPACT_SUFFIX) or (compacted + 1) // 2 <= _COMPACT_INTERVAL:  # there is no such divisor
        return []
    intervals = [each for each in range(_COMPACT_INTERVAL, compacted) if (compacted + 1) % each == 0]
    fitting = [each for each in intervals if compacted + each > end + 1]  # one more batch may be planned
    fitting += [each for each in intervals if compacted + each == end + 1]
    return [f"{compacted - fitting[0]}{COMPACT_SUFFIX}"] if fitting else []


def _numbered(names: Iterable[str]) -> dict[int, str]:
    """Names of a log by number; of two for one number the compacted."""
    numbered: dict[int, str] = {}
    for name in sorted(names, key=lambda each: each.endswith(COMPACT_SUFFIX)):
        number = batch_of(name)
        if number is not None:
            numbered[number] = name
    return numbered
