"""What Spark's logs of a streaming query say: texts in, values out. Formats are Spark 4.3's, and those it still reads."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from firesteel.adapters.spark.streams.snapshots.errors import CheckpointUnknown

COMPACT_SUFFIX = ".compact"
_FORMATS = ("v1", "v2")
_CODEC_SETTING = "spark.sql.streaming.stateStore.compression.codec"


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """One file of `offsets`: what a batch reads."""

    settings: Mapping[str, str]
    """Those that Spark pins: shuffle partitions, state store provider, formats, codec."""
    log_ends: Mapping[str, int]
    """Of file sources, by their directory below `sources`: the last entry of their log that the batch includes. It is not
    the batch's number: a log grows only when there are new files, and once more when a query stops while it plans."""

    @property
    def codec(self) -> str:
        return self.settings.get(_CODEC_SETTING, "lz4")


@dataclass(frozen=True, slots=True)
class CommitEntry:
    """One file of `commits`."""

    unique_ids: Mapping[str, tuple[tuple[str, ...], ...]]
    """With state checkpoint format 2: of each operator, by partition and store, the id in the names of its files."""


@dataclass(frozen=True, slots=True)
class Operator:
    """A stateful operator, by its directory below `state`."""

    stores: tuple[str, ...]
    partitions: int
    schemas: tuple[str, ...] = field(default=())
    """Files in which the schema of its state is, by their names in `_stateSchema`."""


def batch_of(name: str) -> int | None:
    """The number that a file of a log has for its name. None of others."""
    digits = name.removesuffix(COMPACT_SUFFIX)
    return int(digits) if digits.isascii() and digits.isdigit() else None


def offset_entry(text: str, path: str) -> OffsetEntry:
    """Raises CheckpointUnknown."""
    lines = _lines(text, path)
    settings = _json(lines[1] if len(lines) > 1 and lines[1] else "{}", path).get("conf", {})
    ends = {}
    for place, line in enumerate(lines[2:]):
        key, _, offset = (str(place), "", line) if lines[0] == "v1" else line.partition(":")
        end = _log_end(offset)
        if end is not None:
            ends[key] = end
    return OffsetEntry(settings, ends)


def commit_entry(text: str, path: str) -> CommitEntry:
    """Raises CheckpointUnknown."""
    lines = _lines(text, path)
    ids = _json(lines[1] if len(lines) > 1 else "{}", path).get("stateUniqueIds") or {}
    return CommitEntry({key: tuple(tuple(each or "" for each in of) for of in parts) for key, parts in ids.items()})


def operator(text: str, path: str) -> Operator:
    """Raises CheckpointUnknown."""
    lines = _lines(text, path)
    stores = _json("\n".join(lines[1:]), path)["stateStoreInfo"]
    schemas = (schema for store in stores for schema in store.get("stateSchemaFilePaths", ()))
    return Operator(
        tuple(store["storeName"] for store in stores),
        max(store["numPartitions"] for store in stores),
        tuple(schema.rpartition("/_stateSchema/")[2] for schema in schemas),
    )


def relocated(text: str, checkpoint: str) -> str:
    """The metadata of an operator, whose schemas are named by absolute paths, as if it had been written at `checkpoint`."""
    return re.sub(
        r'"((?:\w+:)?)[^"]*/(state/\d+/_stateSchema/[^"]*)"',
        lambda found: json.dumps(f"{found[1]}{checkpoint}/{found[2]}"),
        text,
    )


def query_id(text: str, path: str) -> str:
    """Of the file `metadata`. Raises CheckpointUnknown."""
    return str(_json(text, path).get("id", ""))


def _lines(text: str, path: str) -> list[str]:
    lines = text.split("\n")
    if lines[0].strip() not in _FORMATS:
        raise CheckpointUnknown(path, f"it begins with {lines[0][:20]!r}")
    return lines


def _json(text: str, path: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise CheckpointUnknown(path, f"it holds no JSON ({error})") from None
    if not isinstance(value, dict):
        raise CheckpointUnknown(path, "it holds no JSON object")
    return value


def _log_end(offset: str) -> int | None:
    try:
        value = json.loads(offset)
    except ValueError:
        return None
    end = value.get("logOffset") if isinstance(value, dict) else None
    return end if isinstance(end, int) else None
