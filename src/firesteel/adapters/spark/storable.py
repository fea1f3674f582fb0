"""Which columns Parquet can hold, and what is stored in place of those it can't."""

from collections.abc import Iterator
from typing import Any

from firesteel.adapters.spark.refusals import PipelineRefused


def check_storable(names: tuple[str, ...], schema: Any) -> tuple[int, ...]:
    """Positions of columns of type void, which are left out of the files. Raises PipelineRefused."""
    from pyspark.sql.types import NullType

    voids: list[int] = []
    for index, field in enumerate(schema.fields):
        if isinstance(field.dataType, NullType):
            voids.append(index)
        elif problem := next(_problems(field.dataType), ""):
            raise PipelineRefused(
                f"its result can't be stored: column {names[index]!r} of type {field.dataType.simpleString()}"
                f" {problem}; cast it or leave it out"
            )
    return tuple(voids)


def _problems(data_type: Any) -> Iterator[str]:
    from pyspark.sql import types as T

    match data_type:
        case T.NullType():
            yield "holds the type void inside"
        case T.CalendarIntervalType():
            yield "is an interval of months, days and time together"
        case T.ArrayType():
            yield from _problems(data_type.elementType)
        case T.MapType():
            yield from _problems(data_type.keyType)
            yield from _problems(data_type.valueType)
        case T.StructType():
            names = [field.name.lower() for field in data_type.fields]
            if not names:
                yield "holds a struct without fields"
            if len(set(names)) < len(names):
                yield "holds a struct with two fields of one name"
            for field in data_type.fields:
                yield from _problems(field.dataType)
        case _:
            return
