"""The argument `splits` of a source with input splits: pieces of the input, and how to read just them."""

import datetime
from collections.abc import Sequence
from typing import Any

import msgspec

from firesteel.adapters.spark.splits.kafka import KafkaSplits
from firesteel.adapters.spark.splits.paths import escaped, partition_root
from firesteel.model.splits import (
    DateInputFormat,
    DateInputSplit,
    FileInputFormat,
    FileInputSplit,
    InputFormat,
    InputSplit,
    KafkaInputFormat,
    KafkaInputSplit,
    RangeInputFormat,
    RangeInputSplit,
)


class FileSplits:
    """Some of the files that `fs.file_splits` has found."""

    def __init__(self, declared: FileInputFormat, path: str, files: Sequence[str], schema: str) -> None:
        self._declared, self._path, self._schema = declared, path, schema
        self.files = tuple(files)
        """Paths as Spark names them."""

    @property
    def schema(self) -> Any:
        """The schema of all the files together, partition columns included."""
        from pyspark.sql.types import StructType

        return StructType.fromJson(msgspec.json.decode(self._schema))

    def read(self, spark: Any) -> Any:
        """The rows of these files, as `spark.read.load` gives them: same columns, same types, partition values too."""
        schema = self.schema
        if not self.files:
            return spark.createDataFrame([], schema)
        options = {name.lower(): value for name, value in self._declared.options.items()}
        as_told = "basepath" in options or options.get("recursivefilelookup") == "true"
        root = "" if as_told else partition_root(self._path, self.files)
        reader = spark.read.format(self._declared.format).schema(schema).options(**self._declared.options)
        reader = reader.option("basePath", root) if root else reader
        frame = reader.load([escaped(file) for file in self.files])
        return frame.select([frame[_quoted(name)] for name in schema.fieldNames()])


class RangeSplits:
    """Some of the ranges of `fs.range_splits`."""

    def __init__(self, column: str, splits: Sequence[RangeInputSplit]) -> None:
        self._column, self._splits = column, sorted(splits, key=lambda split: split.lower)

    @property
    def predicates(self) -> list[str]:
        """A condition for each range: what `spark.read.jdbc(..., predicates=splits.predicates)` takes."""
        return [self._predicate(split) for split in self._splits] or ["1 = 0"]

    @property
    def predicate(self) -> str:
        """One condition for all of them, for `where`; in parentheses, so that it may be put into longer ones."""
        return f"({' OR '.join(f'({each})' for each in self.predicates)})"

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """(lower, upper) of each, upper not included; neighbours are joined."""
        joined: list[tuple[int, int]] = []
        for split in self._splits:
            if joined and joined[-1][1] == split.lower:
                joined[-1] = (joined[-1][0], split.upper)
            else:
                joined.append((split.lower, split.upper))
        return joined

    def read(self, spark: Any) -> Any:
        """The whole numbers of these ranges, from `lower` until before `upper`, as a column of that name."""
        frame = spark.range(0)
        for lower, upper in self.ranges:
            frame = frame.union(spark.range(lower, upper))
        return frame.toDF(self._column)

    def _predicate(self, split: RangeInputSplit) -> str:
        column = self._column
        if split.is_first and split.is_last:
            return "1 = 1"
        if split.is_first:
            return f"({column} < {split.upper} OR {column} IS NULL)"
        if split.is_last:
            return f"{column} >= {split.lower}"
        return f"{column} >= {split.lower} AND {column} < {split.upper}"


class DateSplits:
    """Some of the days of `fs.date_splits`."""

    def __init__(self, splits: Sequence[DateInputSplit]) -> None:
        days = (
            datetime.date.fromisoformat(split.start) + datetime.timedelta(days=day)
            for split in splits
            for day in range(split.days)
        )
        self.dates = sorted(days)

    def predicate(self, column: str) -> str:
        """A condition for these days, for `where`. `column` is a date, or a timestamp, whose day counts in the session's
        time zone; as Spark SQL writes it."""
        shown = ", ".join(f"DATE'{day.isoformat()}'" for day in self.dates)
        return f"CAST({column} AS DATE) IN ({shown})" if shown else "1 = 0"


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def splits_argument(declared: InputFormat, splits: Sequence[InputSplit], schema: str, place: str) -> Any:
    """The argument `splits` for these; `place` is where they were looked for."""
    match declared:
        case FileInputFormat():
            files = [file for split in splits if isinstance(split, FileInputSplit) for file in split.files]
            return FileSplits(declared, place, files, schema)
        case RangeInputFormat(column=column):
            return RangeSplits(column, [split for split in splits if isinstance(split, RangeInputSplit)])
        case DateInputFormat():
            return DateSplits([split for split in splits if isinstance(split, DateInputSplit)])
        case KafkaInputFormat():
            return KafkaSplits(declared, place, [split for split in splits if isinstance(split, KafkaInputSplit)])
