"""What a text says of a parameter, for who knows the name of its type only: as the value travels in a job graph."""

import ast
import calendar
import json
import math
import re
from decimal import Decimal, InvalidOperation

from firesteel.model.branches import WireValue

_INT64 = 2**63
_DATE = r"(?P<year>\d{4})-(?P<month>0[1-9]|1[0-2])-(?P<day>\d\d)"
_TIME = r"([01]\d|2[0-3])(:[0-5]\d(:[0-5]\d([.,]\d{1,6})?)?)?"
_ZONE = r"(Z|[+-]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{6})?)?)?"
_ISO = {"date": re.compile(_DATE, re.ASCII), "datetime": re.compile(f"{_DATE}([T ]{_TIME}{_ZONE})?", re.ASCII)}


def wire_of_text(type_name: str, text: str) -> WireValue:
    """The value that a text says; of a type that is not known here, the text. Raises ValueError for what does not fit."""
    stripped = text.strip()
    kind, _, inner = type_name.removesuffix("]").partition("[")
    match kind:
        case "list":
            return json.dumps([wire_of_text(inner, each) for each in _elements(text)], ensure_ascii=False)
        case "Literal":
            return _choice(ast.literal_eval(f"({inner},)"), stripped)
        case "Enum":
            return _choice(tuple(inner.split(", ")), stripped)
        case "int" if -_INT64 <= int(stripped) < _INT64:
            return int(stripped)
        case "float" if math.isfinite(float(stripped)):
            return float(stripped)
        case "bool" if stripped.lower() in ("true", "false"):
            return stripped.lower() == "true"
        case "date" | "datetime" if _is_iso(kind, stripped):
            return stripped
        case "Decimal" if _is_decimal(stripped):
            return stripped
        case "Path" if stripped and "://" not in stripped:
            return stripped
        case "int" | "float" | "bool" | "date" | "datetime" | "Decimal" | "Path":
            raise ValueError(text)
        case _:
            return text


def _elements(text: str) -> list[str]:
    """Texts of a list: a JSON array, or what is between commas."""
    if not text.lstrip().startswith("["):
        return [each.strip() for each in text.split(",")] if text.strip() else []
    found = json.loads(text)
    if any(each is None or isinstance(each, list | dict) for each in found):
        raise ValueError(text)
    return [each if isinstance(each, str) else json.dumps(each) for each in found]


def _choice(values: tuple[WireValue, ...], text: str) -> WireValue:
    for each in values:
        if str(each) == text:
            return each
    raise ValueError(text)


def _is_iso(kind: str, text: str) -> bool:
    """Whether it is a date of the calendar, as ISO writes it in full, maybe with a time."""
    found = _ISO[kind].fullmatch(text)
    if found is None or not int(found["year"]):
        return False
    return 1 <= int(found["day"]) <= calendar.monthrange(int(found["year"]), int(found["month"]))[1]


def _is_decimal(text: str) -> bool:
    try:
        return Decimal(text).is_finite()
    except InvalidOperation:
        return False
