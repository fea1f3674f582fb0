"""Types of columns that can be stored in any form or a caller can get, and what is stored in place of those it can't."""

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


def check_returnable(function: str, schema: Any) -> None:
    """Raises PipelineRefused for a column whose values can't come to the caller: Python has none like them; and for rows
    without columns: what carries rows would forget how many they are."""
    from pyspark.sql import types as T

    if not schema.fields:
        raise PipelineRefused(f"{function} returns rows without columns: select one, or return how many there are")
    for field in schema.fields:
        kinds = [type(part) for part in types_within(field.dataType)]
        if T.YearMonthIntervalType in kinds or T.CalendarIntervalType in kinds:
            shown = field.dataType.simpleString()
            raise PipelineRefused(
                f"{function} can't return column {field.name!r} of type {shown}, which Python has no values for: cast it"
                " to string, or take its parts with F.extract(...)"
            )


def _is_collated(text_type: Any) -> bool:
    return text_type.collation not in (None, "UTF8_BINARY")


def types_within(data_type: Any) -> Iterator[Any]:
    """The type, and all that it is made of."""
    from pyspark.sql import types as T

    yield data_type
    match data_type:
        case T.ArrayType():
            yield from types_within(data_type.elementType)
        case T.MapType():
            yield from types_within(data_type.keyType)
            yield from types_within(data_type.valueType)
        case T.StructType():
            for field in data_type.fields:
                yield from types_within(field.dataType)
        case _:
            return


def all_nullable(data_type: Any) -> Any:
    """The same type with everything nullable."""
    from pyspark.sql import types as T

    match data_type:
        case T.ArrayType():
            return T.ArrayType(all_nullable(data_type.elementType))
        case T.MapType():
            return T.MapType(all_nullable(data_type.keyType), all_nullable(data_type.valueType))
        case T.StructType():
            fields = [T.StructField(each.name, all_nullable(each.dataType), True, each.metadata) for each in data_type]
            return T.StructType(fields)
        case _:
            return data_type


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
            if any(isinstance(part, T.StringType) and _is_collated(part) for part in types_within(data_type.keyType)):
                yield "is a map whose keys have a collation"
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
