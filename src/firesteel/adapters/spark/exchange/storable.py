"""Types of columns that can be stored in any form or a caller can get, and what is stored in place of those it can't."""

from collections.abc import Callable, Iterator
from typing import Any

from firesteel.adapters.spark.refusals import PipelineRefused

_OF_FILES = (
    *("__metadata_col", "__qualified_access_only", "__file_source_metadata_col"),
    *("__file_source_constant_metadata_col", "__file_source_generated_metadata_col"),
)
"""Keys by which Spark knows the column `_metadata` and its fields."""


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

    def nullable(part: Any) -> Any:
        match part:
            case T.ArrayType():
                return T.ArrayType(part.elementType)
            case T.MapType():
                return T.MapType(part.keyType, part.valueType)
            case T.StructType():
                return T.StructType([T.StructField(each.name, each.dataType, True, each.metadata) for each in part])
            case _:
                return part

    return _changed(data_type, nullable)


def as_data(data_type: Any) -> Any:
    """The same type, no field of which is marked as one that Spark makes of a file's name, size or time: it is in a file now."""
    from pyspark.sql import types as T

    def unmarked(part: Any) -> Any:
        if not isinstance(part, T.StructType):
            return part
        kept = [{key: value for key, value in each.metadata.items() if key not in _OF_FILES} for each in part]
        fields = zip(part.fields, kept, strict=True)
        return T.StructType([T.StructField(each.name, each.dataType, each.nullable, mine) for each, mine in fields])

    return _changed(data_type, unmarked)


def _changed(data_type: Any, change: Callable[[Any], Any]) -> Any:
    """The type, all that it is made of changed first, and then itself."""
    from pyspark.sql import types as T

    match data_type:
        case T.ArrayType():
            element = _changed(data_type.elementType, change)
            return change(T.ArrayType(element, data_type.containsNull))
        case T.MapType():
            key, value = _changed(data_type.keyType, change), _changed(data_type.valueType, change)
            return change(T.MapType(key, value, data_type.valueContainsNull))
        case T.StructType():
            fields = [T.StructField(f.name, _changed(f.dataType, change), f.nullable, f.metadata) for f in data_type]
            return change(T.StructType(fields))
        case _:
            return change(data_type)


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
