"""Finding the input splits of a source, once, on a worker: the master has neither Spark nor access to the storage.

Files are listed by Spark itself (`binaryFile`, whose content is not read): so hidden files, patterns, partition
directories and every storage Spark knows are what they are to `spark.read`.
"""

import datetime
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec

from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.adapters.spark.splits import kafka
from firesteel.adapters.spark.splits.offsets import cut
from firesteel.adapters.spark.splits.paths import absolute
from firesteel.model.splits import (
    MAX_SPLITS,
    DateInputFormat,
    DateInputSplit,
    FileInputFormat,
    FileInputSplit,
    InputFormat,
    KafkaInputFormat,
    ParameterReference,
    RangeInputFormat,
    RangeInputSplit,
    SplitEnumeration,
)

_MIB = 1024 * 1024
OPEN_COST_BYTES = 4 * _MIB
"""Cost of opening a file, as Spark has it (`spark.sql.files.openCostInBytes`)."""
BATCH_BYTES = 16 * _MIB
"""Less than this is read faster than a query starts."""
BATCH_RECORDS = 20_000
"""Fewer records of Kafka than this are read faster than a query starts."""
SPLITS_PER_SUBTASK = 16
"""Splits for each subtask even of little data: down to the cost of opening a file, to be shared evenly."""
MAX_FILES = 1_000_000
MAX_ENUMERATION_MIB = 16
"""Largest size of the files' names: they travel in one message, and stand in the journal."""
_LISTING_OPTIONS = ("basepath", "recursivefilelookup", "pathglobfilter", "modifiedbefore", "modifiedafter")
"""Options that say which files are read; in lower case, as Spark compares them."""


class SplitFinder:
    """Evaluates declarations with a job's parameters."""

    def __init__(self, spark: Callable[[], Any], parameters: Mapping[str, Any], base: Path) -> None:
        self._spark, self._parameters, self._base = spark, parameters, base

    def find(self, declared: InputFormat, subtasks: int) -> SplitEnumeration:
        """Find all splits, for so many subtasks. Raises PipelineRefused, and what Spark raises when it lists files."""
        match declared:
            case FileInputFormat():
                return _checked(self._files(declared, subtasks))
            case RangeInputFormat():
                return self._ranges(declared)
            case DateInputFormat():
                return self._dates(declared)
            case KafkaInputFormat():
                return self._topics(declared, subtasks)

    def place_of(self, declared: InputFormat) -> str:
        """Where it is looked for: the path of files, absolute, or the servers of topics; empty for others."""
        if isinstance(declared, FileInputFormat):
            return absolute(str(self._value(declared.path)), self._base)
        if isinstance(declared, KafkaInputFormat):
            return str(self._value(declared.servers))
        return ""

    def _files(self, declared: FileInputFormat, subtasks: int) -> SplitEnumeration:
        path = self.place_of(declared)
        reader = self._spark().read.format(declared.format).options(**declared.options)
        if declared.schema:
            reader = reader.schema(_schema(declared.schema))
        schema = reader.load(path).schema.json()
        files = self._list(path, declared.options)
        total = sum(size + OPEN_COST_BYTES for _, size in files)
        even = max(OPEN_COST_BYTES, total // (SPLITS_PER_SUBTASK * subtasks))
        splits = _grouped(files, min(declared.split_mib * _MIB, even))
        _check_count(len(splits), "a larger split_size")
        return SplitEnumeration(splits=splits, schema=schema, batch_weight=BATCH_BYTES)

    def _list(self, path: str, options: Mapping[str, str]) -> list[tuple[str, int]]:
        """(path, bytes) of every file, by path."""
        wanted = {name: value for name, value in options.items() if name.lower() in _LISTING_OPTIONS}
        listing = self._spark().read.format("binaryFile").options(**wanted).load(path)
        rows = listing.select("_metadata.file_path", "_metadata.file_size").limit(MAX_FILES + 1).collect()
        if len(rows) > MAX_FILES:
            raise PipelineRefused(f"{path} holds more than {MAX_FILES:,} files: name a part of it, or compact it")
        return sorted((unquote(file), size) for file, size in rows)

    def _ranges(self, declared: RangeInputFormat) -> SplitEnumeration:
        lower, upper, count = (self._value(each) for each in (declared.lower, declared.upper, declared.count))
        if upper <= lower or count < 1:
            raise PipelineRefused(
                f"range_splits({declared.column!r}, lower={lower}, upper={upper}, count={count}):"
                " upper must be above lower, and count at least 1"
            )
        count = min(count, upper - lower)
        _check_count(count, "a smaller count")
        cuts = [lower + (upper - lower) * index // count for index in range(count + 1)]
        return SplitEnumeration(
            splits=tuple(
                RangeInputSplit(
                    lower=cuts[index], upper=cuts[index + 1], is_first=index == 0, is_last=index == count - 1
                )
                for index in range(count)
            )
        )

    def _dates(self, declared: DateInputFormat) -> SplitEnumeration:
        start, end = (_date(self._value(each)) for each in (declared.start, declared.end))
        if end <= start:
            raise PipelineRefused(f"date_splits(start={start}, end={end}): end must be after start")
        count = -(-(end - start).days // declared.days)
        _check_count(count, "more days in a split")
        splits = [
            DateInputSplit(
                start=(first := start + datetime.timedelta(days=index * declared.days)).isoformat(),
                days=(days := min(declared.days, (end - first).days)),
                weight=days,
            )
            for index in range(count)
        ]
        return SplitEnumeration(splits=tuple(splits))

    def _topics(self, declared: KafkaInputFormat, subtasks: int) -> SplitEnumeration:
        ranges = kafka.find(declared, self._value, self._spark())
        total = sum(each.weight for each in ranges)
        even = max(BATCH_RECORDS, total // (SPLITS_PER_SUBTASK * subtasks))
        limit = min(declared.split_records, even)
        _check_count(sum(-(-each.weight // limit) for each in ranges), "a larger split_records")
        at_once = BATCH_RECORDS if subtasks > 1 else max(total, 1)  # its function may expect to be called once
        return SplitEnumeration(splits=cut(ranges, limit), batch_weight=at_once)

    def _value(self, argument: Any) -> Any:
        if isinstance(argument, ParameterReference):
            return self._parameters.get(argument.name, argument.default)
        return argument


def _grouped(files: Sequence[tuple[str, int]], limit: int) -> tuple[FileInputSplit, ...]:
    """Neighbours together up to `limit` bytes, with the cost of opening each; the heaviest group first."""
    groups: list[tuple[int, list[str]]] = []
    for file, size in files:
        weight = size + OPEN_COST_BYTES
        if groups and groups[-1][0] + weight <= limit:
            groups[-1] = (groups[-1][0] + weight, [*groups[-1][1], file])
        else:
            groups.append((weight, [file]))
    groups.sort(key=lambda group: -group[0])
    return tuple(FileInputSplit(weight=weight, files=tuple(names)) for weight, names in groups)


def _checked(enumeration: SplitEnumeration) -> SplitEnumeration:
    size_mib = len(msgspec.msgpack.encode(enumeration)) // _MIB
    if size_mib >= MAX_ENUMERATION_MIB:
        raise PipelineRefused(
            f"the names of its files take {size_mib} MiB, more than {MAX_ENUMERATION_MIB}: read a part of them, or"
            " compact them"
        )
    return enumeration


def _check_count(count: int, way_out: str) -> None:
    if count > MAX_SPLITS:
        raise PipelineRefused(f"a source has at most {MAX_SPLITS:,} input splits, and these are {count:,}: {way_out}")


def _date(value: Any) -> datetime.date:
    return value if isinstance(value, datetime.date) else datetime.date.fromisoformat(value)


def _schema(text: str) -> Any:
    from pyspark.sql.types import StructType

    if not text.startswith("{"):
        return text
    import json

    return StructType.fromJson(json.loads(text))
