"""Results that outlive their attempt: columns by position, in a directory of the attempt's own, in one of two forms.

A result of several subpartitions is written by one Spark action into a directory for each, which is named by it.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from firesteel.adapters.spark.exchange.buckets import common_buckets
from firesteel.adapters.spark.exchange.forms import PARQUET, ROWS, form_of
from firesteel.adapters.spark.exchange.layout import SUBPARTITION, WHOLE, Layout, Spread, spread
from firesteel.adapters.spark.exchange.resultfiles import Manifest, ResultFiles
from firesteel.adapters.spark.exchange.roworder import is_ordered, may_be_ordered
from firesteel.adapters.spark.exchange.storable import all_nullable, as_data, check_storable, types_within
from firesteel.adapters.spark.exchange.storedfiles import read_files
from firesteel.adapters.spark.jvm.launch import STORED_ROWS
from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.adapters.storage.serving import NOTHING_SET, directories_at
from firesteel.model.ids import DataSetID
from firesteel.model.tasks import ResultPartition

_SHARE = re.compile(rf"{SUBPARTITION}=(\d+)/")
_TIMESTAMP_UNIT = "spark.sql.parquet.outputTimestampType"
_OPEN_FILES_MAX = "spark.sql.maxConcurrentOutputFileWriters"
_ROW_GROUP_BYTES = 128 << 20
"""Memory that one of Spark's tasks takes for all the files it has open: Parquet's own limit for one."""
_PARQUET = {"compression": "lz4_raw", "parquet.enable.dictionary": "false"}
"""What is read once, and soon, is not worth the search for the smallest form: this halves the cost of writing it."""
_SMALL_BYTES, _FEW_FILES = 1 << 20, 32
"""So much Spark, too, finds too small for more than one partition (`spark.sql.adaptive.coalescePartitions.minPartitionSize`).
What is one partition needs no shuffle, whatever is done with it, and no buckets, which would have to be larger."""
_COMMIT = {
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "maxRecordsPerFile": "0",
}
"""The directory is the attempt's own, and what is in it counts only once the attempt has ended well: one rename a file will
do."""


class StoredResults:
    """Stores and reads results in one attempt. `settings` are those of storages; `jvm_cores` is how many a JVM of ours has, when
    Spark's tasks run there, and so know our classes, and 0 when they run elsewhere."""

    def __init__(self, settings: Mapping[str, str] = NOTHING_SET, *, jvm_cores: int = 1) -> None:
        self._jvm_cores, self._has_jar = jvm_cores, jvm_cores > 0
        self.files = ResultFiles(partial(directories_at, settings=settings))

    def store(
        self, frame: Any, location: str, dataset_id: DataSetID, subtask: int, *, layout: Layout = WHOLE
    ) -> ResultPartition:
        """One action: write `frame` and describe it. A frame without columns keeps its number of rows.

        Raises PipelineRefused for columns that can't be stored or hashed.
        """
        columns = tuple(frame.columns)
        own_schema = frame.schema  # the one question to Spark: what the renamed columns are follows from it
        voids = check_storable(columns, own_schema)
        schema = _stored_schema(own_schema, voids)
        is_rows = self._jvm_cores > 0 and "://" not in location
        by_position, cores = _by_position(frame, columns, voids), self._jvm_cores if is_rows else 0
        laid_out = spread(by_position, own_schema, columns, layout, cores=cores)
        if is_rows:
            _rows_writer(laid_out, layout).save(self.files.as_spark(location))
        else:
            with _settings_held(frame.sparkSession, _settings_of(frame.sparkSession, schema, laid_out.files_open)):
                _parquet_writer(laid_out, layout).save(self.files.as_spark(location))
        sizes = self.files.written(location)
        rows, row_bytes = self.files.counted(location, sizes)
        ordered = layout.subpartitions == 1 and may_be_ordered(frame) and (len(sizes) < 2 or is_ordered(frame))
        manifest = Manifest(
            schema=schema.json(),
            voids=voids,
            files=_by_subpartition(list(sizes), layout.subpartitions),
            ordered=ordered,
            buckets=laid_out.buckets,
            row_bytes=row_bytes,
        )
        self.files.describe(location, manifest)
        return ResultPartition(
            dataset_id=dataset_id,
            subtask=subtask,
            location=location,
            rows=rows,
            size_bytes=sum(sizes.values()),
            columns=columns,
            subpartitions=layout.subpartitions,
            key_types=laid_out.key_types,
            key_column_types=laid_out.key_column_types,
        )

    def read(
        self,
        spark: Any,
        stored: Sequence[ResultPartition],
        shares: range | None,
        directory: Path,
        *,
        little_beside: bool = True,
    ) -> Any:
        """The frame that a consumer that has these shares reads of the producers' results, or of all rows when it is None,
        with the user's column names.

        `directory` is the reader's own, on this machine, and new; `little_beside` says that all else it reads is little. The
        columns are as nullable as they were, and of one producer's result the rows are in its order, if it had one. Raises
        PartitionLost, and PipelineRefused when the producers' columns differ.
        """
        from pyspark.sql import functions

        found = self.files.check_there(stored, shares)
        manifests = [share.manifest for share in found]
        _check_alike(stored, manifests)
        sizes = {f"{share.location}/{name}": size for share in found for name, size in share.sizes.items()}
        if not self._has_jar and any(form_of(name) is ROWS for name in sizes):
            spark.addArtifacts(str(STORED_ROWS))
            self._has_jar = True
        in_order = len(stored) == 1 and manifests[0].ordered
        buckets = common_buckets(sizes, [each.buckets for each in manifests], self._jvm_cores)
        schema, expansion = _common_schema(manifests), _expansion(stored, manifests)
        frame = read_files(spark, schema, sizes, directory, in_order=in_order, expansion=expansion, buckets=buckets)
        few = 1 if in_order else _FEW_FILES * manifests[0].buckets.number
        if little_beside and len(sizes) <= few and is_little(sum(sizes.values())):
            frame = frame.coalesce(1)
        columns, voids = stored[0].columns, manifests[0].voids
        if voids:
            shown = [functions.lit(None) if n in voids else functions.col(f"c{n}") for n in range(len(columns))]
            frame = frame.select([column.alias(f"c{n}") for n, column in enumerate(shown)])
        return frame.toDF(*columns) if columns else frame.select()


def is_little(size_bytes: int) -> bool:
    """Whether it makes one partition of Spark's. Then all that is read is to be little: a semi join is pushed below what makes
    one partition of its left side, and would be one task with a large right side, too."""
    return size_bytes <= _SMALL_BYTES


def _settings_of(spark: Any, schema: Any, files_open: int) -> dict[str, str]:
    """Settings with which a result is written, whatever the job has for its sinks: its times lose nothing there, and what
    belongs to several subpartitions is not sorted."""
    held = {}
    if "timestamp" in schema.simpleString() and spark.conf.get(_TIMESTAMP_UNIT, None) == "TIMESTAMP_MILLIS":
        held[_TIMESTAMP_UNIT] = "TIMESTAMP_MICROS"
    if files_open > 1:
        held[_OPEN_FILES_MAX] = str(files_open + 1)  # at the number itself Spark begins to sort
    return held


@contextlib.contextmanager
def _settings_held(spark: Any, held: Mapping[str, str]) -> Iterator[None]:
    former = {name: spark.conf.get(name, None) for name in held}
    for name, value in held.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in former.items():
            spark.conf.set(name, value) if value is not None else spark.conf.unset(name)


def _rows_writer(laid_out: Spread, layout: Layout) -> Any:
    writer = laid_out.frame.write.mode("overwrite").format(ROWS.source).options(**_COMMIT)
    return writer.options(subpartitions=layout.subpartitions, **laid_out.buckets.options())


def _parquet_writer(laid_out: Spread, layout: Layout) -> Any:
    writer = laid_out.frame.write.mode("overwrite").format(PARQUET.source).options(**_COMMIT, **_PARQUET)
    if laid_out.files_open > 1:
        writer = writer.option("parquet.block.size", _ROW_GROUP_BYTES // laid_out.files_open)
    return writer.partitionBy(SUBPARTITION) if layout.subpartitions > 1 else writer


def _by_position(frame: Any, columns: tuple[str, ...], voids: tuple[int, ...]) -> Any:
    from pyspark.sql import functions

    if not columns:
        return frame.select(functions.lit(True).alias("c0"))
    renamed = frame.toDF(*(f"c{index}" for index in range(len(columns))))
    empty = {f"c{index}": functions.lit(None).cast("boolean") for index in voids}
    return renamed.withColumns(empty) if empty else renamed


def _stored_schema(schema: Any, voids: tuple[int, ...]) -> Any:
    """Schema of what `_by_position` makes of a frame of that schema."""
    from pyspark.sql.types import BooleanType, StructField, StructType

    if not schema.fields:
        return StructType([StructField("c0", BooleanType(), nullable=False)])
    own = as_data(schema).fields
    fields = [StructField(f"c{n}", each.dataType, each.nullable, each.metadata) for n, each in enumerate(own)]
    for index in voids:
        fields[index] = StructField(f"c{index}", BooleanType())
    return StructType(fields)


def _expansion(stored: Sequence[ResultPartition], manifests: Sequence[Manifest]) -> float:
    """How many times as many bytes as their files have the rows in memory of those results that tell it."""
    both = [(each.row_bytes, partition.size_bytes) for partition, each in zip(stored, manifests, strict=True)]
    known = [pair for pair in both if min(pair) > 0]
    return sum(row_bytes for row_bytes, _ in known) / sum(size for _, size in known) if known else 1.0


def _by_subpartition(names: list[str], subpartitions: int) -> tuple[tuple[str, ...], ...]:
    if subpartitions == 1:
        return (tuple(names),)
    shares: list[list[str]] = [[] for _ in range(subpartitions)]
    for name in names:
        match = _SHARE.match(name)
        if match is None or int(match[1]) >= subpartitions:
            raise RuntimeError(f"Spark wrote {name}, which is none of {subpartitions} subpartitions")
        shares[int(match[1])].append(name)
    return tuple(map(tuple, shares))


def _common_schema(manifests: Sequence[Manifest]) -> Any:
    """Schema of producers that differ in nothing but what may be null: there everything may."""
    from pyspark.sql.types import StructType

    texts = {manifest.schema for manifest in manifests}
    schema = StructType.fromJson(msgspec.json.decode(manifests[0].schema))
    return schema if len(texts) == 1 else all_nullable(schema)


def _check_alike(stored: Sequence[ResultPartition], manifests: Sequence[Manifest]) -> None:
    from pyspark.sql.types import StructType, UserDefinedType

    def shape(index: int) -> tuple[Any, ...]:
        schema = StructType.fromJson(msgspec.json.decode(manifests[index].schema))
        inside = [each.sqlType().simpleString() for each in types_within(schema) if isinstance(each, UserDefinedType)]
        return stored[index].columns, manifests[index].voids, " ".join([schema.simpleString(), *inside])

    first = shape(0)
    texts = {manifest.schema for manifest in manifests}
    same = len(texts) == 1 and all((p.columns, m.voids) == first[:2] for p, m in zip(stored, manifests, strict=True))
    for index in range(1, 0 if same else len(stored)):
        if shape(index) != first:
            raise PipelineRefused(
                f"subtasks {stored[0].subtask} and {stored[index].subtask} of its input have different columns:"
                f" {_shown(first)} and {_shown(shape(index))}; give the columns fixed types"
            )


def _shown(shape: tuple[Any, ...]) -> str:
    return f"({', '.join(shape[0])}) of {shape[2]}"
