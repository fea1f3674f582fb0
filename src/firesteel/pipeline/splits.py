"""Input splits as an author declares them: what a source with a parallelism above 1 is cut into."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

import msgspec

from firesteel.model.ids import DataSetID, JobVertexID, derived_id
from firesteel.model.jobgraph import (
    DistributionPattern,
    ExchangeMode,
    Function,
    FunctionKind,
    IntermediateDataSet,
    JobEdge,
    JobVertex,
    Partitioner,
)
from firesteel.model.options import parse_memory_mib
from firesteel.model.splits import (
    DateInputFormat,
    FileInputFormat,
    InputFormat,
    KafkaInputFormat,
    ParameterReference,
    RangeInputFormat,
)
from firesteel.pipeline.errors import InvalidPipeline

SPLITS_ARGUMENT = "splits"
FILE_FORMATS = ("parquet", "csv", "json", "text", "orc")


def param(name: str, default: int | str | date | None = None) -> Any:
    """The value of job parameter `name`, as an argument of `file_splits` and its kin."""
    if not isinstance(name, str) or not name.isidentifier():
        raise InvalidPipeline(f'param({name!r}): name a job parameter, like param("input")')
    return ParameterReference(name, default.isoformat() if isinstance(default, date) else default)


def file_splits(
    path: str, format: str = "parquet", schema: Any = None, *, split_size: int | str = "128m", **options: Any
) -> FileInputFormat:
    """The files that `spark.read.load(path, format, schema, **options)` reads: `splits` is a `FileSplits`.

    A split is whole files: small ones are grouped up to `split_size`, a file that is larger is a split of its own.
    Within a split Spark still spreads a large file over its tasks, where the format and its compression allow that;
    but Spark has no way to read a part of a file without reading all of it (a filter on
    `_metadata.file_block_start` picks the right rows and scans the whole file), so one huge file is one subtask's.
    The schema, if none is given, is found once over all files, as Spark does, and not for each split. Paths,
    patterns, hidden files and partitioned directories (`k=v`) are treated by Spark itself.
    """
    if not isinstance(path, str | ParameterReference) or path == "":
        raise InvalidPipeline(f'file_splits({path!r}): give a path, or param("input")')
    if format not in FILE_FORMATS:
        raise InvalidPipeline(f"file_splits(format={format!r}): must be one of {', '.join(FILE_FORMATS)}")
    text = schema if isinstance(schema, str) else schema.json() if schema is not None else ""
    try:
        mebibytes = parse_memory_mib(split_size) if isinstance(split_size, str) else int(split_size)
    except ValueError:
        mebibytes = 0
    if mebibytes < 1:
        raise InvalidPipeline(f'file_splits(split_size={split_size!r}): must be MiB, or a text like "128m"')
    given = {name: _option_text(value) for name, value in options.items() if value is not None}
    return FileInputFormat(path=path, format=format, schema=text, options=given, split_mib=mebibytes)


def range_splits(column: str, lower: int, upper: int, count: int) -> RangeInputFormat:
    """`count` ranges of a numeric column, cut as Spark's JDBC source cuts them: `splits` is a `RangeSplits`.

    As there, `lower` and `upper` say where the ranges lie and not which rows are read: the first split has what is
    below and the nulls, the last what is above.
    """
    if not isinstance(column, str) or not column.strip():
        raise InvalidPipeline(f"range_splits({column!r}, ...): name the column")
    for name, value in (("lower", lower), ("upper", upper), ("count", count)):
        if type(value) is not int and not isinstance(value, ParameterReference):
            raise InvalidPipeline(f'range_splits({name}={value!r}): must be a whole number, or param("...")')
    return RangeInputFormat(column=column, lower=lower, upper=upper, count=count)


def date_splits(start: date | str, end: date | str, *, days: int = 1) -> DateInputFormat:
    """The days from `start` until before `end`, `days` in a split: `splits` is a `DateSplits`."""
    if type(days) is not int or days < 1:
        raise InvalidPipeline(f"date_splits(days={days!r}): must be a whole number of at least 1")
    return DateInputFormat(start=_day("start", start), end=_day("end", end), days=days)


def references(declared: InputFormat) -> list[tuple[ParameterReference, type]]:
    """The job parameters that a declaration names, with the types they must have."""
    types: dict[str, type] = {
        **{"path": str, "lower": int, "upper": int, "count": int, "start": date, "end": date},
        **{"servers": str, "topics": str, "starting": str, "ending": str},
    }
    values = ((getattr(declared, name), types[name]) for name in declared.__struct_fields__ if name in types)
    return [(value, wanted) for value, wanted in values if isinstance(value, ParameterReference)]


def with_finders(
    vertices: Sequence[JobVertex], datasets: Sequence[IntermediateDataSet], edges: Sequence[JobEdge]
) -> tuple[tuple[JobVertex, ...], tuple[IntermediateDataSet, ...], tuple[JobEdge, ...]]:
    """The graph with a vertex before each source that draws splits, which finds them."""
    found: list[JobVertex] = []
    all_datasets, all_edges = list(datasets), list(edges)
    for vertex in vertices:
        if vertex.draws_splits:
            finder = _finder(vertex)
            dataset = DataSetID(derived_id("splits", finder.id))
            found.append(finder)
            all_datasets.append(IntermediateDataSet(id=dataset, name=finder.name, producer=finder.id))
            all_edges.append(
                JobEdge(
                    source=dataset,
                    target=vertex.id,
                    pattern=DistributionPattern.ALL_TO_ALL,
                    exchange=ExchangeMode.BLOCKING,
                    partitioner=Partitioner.SPLITS,
                )
            )
        found.append(vertex)
    return tuple(found), tuple(all_datasets), tuple(all_edges)


def _finder(vertex: JobVertex) -> JobVertex:
    source = vertex.functions[0]
    name = f"{source.name}.{SPLITS_ARGUMENT}"
    function = Function(
        name=name,
        uid=f"{source.uid}.{SPLITS_ARGUMENT}",
        kind=FunctionKind.SPLITS,
        wants_session=isinstance(source.splits, FileInputFormat | KafkaInputFormat),
        location=source.location,
        splits=source.splits,
    )
    return msgspec.structs.replace(
        vertex,
        id=JobVertexID(derived_id("vertex", SPLITS_ARGUMENT, source.uid)),
        name=name,
        functions=(function,),
        parallelism=1,
    )


def _day(name: str, value: Any) -> str | ParameterReference:
    if isinstance(value, ParameterReference):
        return value
    try:
        if isinstance(value, date) and not isinstance(value, datetime):
            return value.isoformat()
        return date.fromisoformat(value).isoformat()
    except (TypeError, ValueError):
        raise InvalidPipeline(
            f'date_splits({name}={value!r}): must be a date, a text like "2026-01-31", or param("...")'
        ) from None


def _option_text(value: Any) -> str:
    """The value of an option as pyspark's readers write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
