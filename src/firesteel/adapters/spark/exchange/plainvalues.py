"""Plain Python values of Arrow columns, also of what Python has no value for."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400
"""Days of the week, leap years and the rules of time zones are the same a cycle of the Gregorian calendar later."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY, _LAST_DAY = (date.min - _EPOCH.date()).days + 2, (date.max - _EPOCH.date()).days - 2
"""Within which every time zone's date is one of Python's."""
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def plain_values(column: Any) -> list[Any]:
    """Values of a pyarrow column; of dates and times that Python has not, like those of the year 10000, their texts by ISO 8601; of
    texts that are no UTF-8 what can be read."""
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except (OverflowError, UnicodeDecodeError):
        return [_plain_value(scalar) for scalar in column]


def _plain_value(scalar: Any) -> Any:
    from pyarrow import types

    if not scalar.is_valid:
        return None
    kind = scalar.type
    if types.is_map(kind):
        return [tuple(_plain_value(pair[name]) for name in range(2)) for pair in scalar.values]
    if types.is_nested(kind):
        if types.is_struct(kind):
            return {field.name: _plain_value(scalar[n]) for n, field in enumerate(kind)}
        return [_plain_value(each) for each in scalar.values]
    try:
        return scalar.as_py()
    except OverflowError:
        return _text_of_day(scalar.value) if types.is_date(kind) else _text_of_time(scalar)
    except UnicodeDecodeError:
        return scalar.cast("binary").as_py().decode(errors="replace")


def _text_of_day(day: int) -> str:
    cycles = _cycles_off(day)
    found = _EPOCH.date() + timedelta(days=day - cycles * _CYCLE_DAYS)
    return _of_year(found.year + cycles * _CYCLE_YEARS, found.isoformat())


def _text_of_time(scalar: Any) -> str:
    from pyarrow.lib import string_to_tzinfo

    seconds, rest = divmod(scalar.value, _PER_SECOND[scalar.type.unit])
    cycles = _cycles_off(seconds // 86_400)
    found = _EPOCH + timedelta(seconds=seconds - cycles * _CYCLE_DAYS * 86_400)
    found += timedelta(microseconds=rest * 10**6 // _PER_SECOND[scalar.type.unit])
    zone = scalar.type.tz
    found = found.astimezone(string_to_tzinfo(zone)) if zone is not None else found.replace(tzinfo=None)
    return _of_year(found.year + cycles * _CYCLE_YEARS, found.isoformat())


def _cycles_off(day: int) -> int:
    """How many cycles later it is than a day that Python has."""
    if day < _FIRST_DAY:
        return (day - _FIRST_DAY) // _CYCLE_DAYS
    return -((_LAST_DAY - day) // _CYCLE_DAYS) if day > _LAST_DAY else 0


def _of_year(year: int, text: str) -> str:
    """`text`, which begins with another year of four digits."""
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04d}{text[4:]}"
