"""Functions for Spark that are declared where there is no Spark, as `@udf("string")` at module level is when a pipeline's
file is only read: to submit it, or to look at its plan.

PySpark has Spark parse the text of their type at once. What it gets here instead is never used to run anything: where it
arrives in a pickle, Spark is asked.
"""

import functools
import importlib.abc
import importlib.util
import re
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_TYPES = "pyspark.sql.types"
_PARSE = "_parse_datatype_string"
_NO_SESSION = ("NO_ACTIVE_OR_DEFAULT_SESSION", "SESSION_OR_CONTEXT_NOT_EXISTS")


def need_no_session() -> None:
    """Let declarations do without a session, from here on in this process; PySpark is not loaded for it. Repeatable."""
    loaded = sys.modules.get(_TYPES)
    if loaded is not None:
        _stand_in(loaded)
    elif not any(isinstance(finder, _WhenLoaded) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WhenLoaded())


class _WhenLoaded(importlib.abc.MetaPathFinder):
    """Finds nothing itself: it waits for PySpark's types."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname != _TYPES:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def load(module: ModuleType) -> None:
                execute(module)
                _stand_in(module)

            setattr(spec.loader, "exec_module", load)  # noqa: B010  # of this one module's loader
        return spec


def _stand_in(types: ModuleType) -> None:
    parse = getattr(types, _PARSE)
    if hasattr(parse, "__wrapped__"):
        return

    @functools.wraps(parse)
    def parsed(text: str) -> Any:
        try:
            return parse(text)
        except RuntimeError as error:
            if not hasattr(error, "getCondition") or error.getCondition() not in _NO_SESSION:
                raise
            return _unparsed(types, text)

    for module in list(sys.modules.values()):  # some have it by this name, too
        if getattr(module, "__dict__", {}).get(_PARSE) is parse:
            setattr(module, _PARSE, parsed)


def _unparsed(types: ModuleType, text: str) -> Any:
    """A type that PySpark takes for one of the right kind: it looks whether there are columns."""

    def parsed_anew(self: Any) -> tuple[Any, tuple[str]]:
        return _parsed, (text,)

    outside = text
    while (shorter := re.sub(r"<[^<>]*>|\([^()]*\)", "", outside)) != outside:
        outside = shorter
    if outside.strip().lower() == "struct" or re.search(r"[\s:,]", outside.strip()):
        columns = [types.StructField("value", types.StringType())]
        return type("UnparsedColumns", (types.StructType,), {"__reduce__": parsed_anew})(columns)
    return type("UnparsedType", (types.StringType,), {"__reduce__": parsed_anew})()


def _parsed(text: str) -> Any:
    return getattr(importlib.import_module(_TYPES), _PARSE)(text)
