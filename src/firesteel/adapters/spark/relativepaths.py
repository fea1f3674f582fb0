"""Relative paths that a script gives to Spark: they start where the script does, not where Spark was started."""

import os
import re
from collections.abc import Callable
from typing import Any

from pyspark.sql.connect import plan

FORMATS = ("", "avro", "binaryfile", "csv", "delta", "json", "orc", "parquet", "text", "xml")
"""What is given to these is a path; others may call a table so."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def start_paths_at(directory: str, is_local: Callable[[], bool]) -> None:
    """From here on, for what DataFrames are read from and written to. `is_local` is asked whether a path without a
    scheme means a file of this machine; that of another storage is left as it is."""
    read, write = plan.DataSource.plan, plan.WriteOperation.command

    def absolute(path: str) -> str:
        if not path or path.startswith("/") or _SCHEME.match(path) or not is_local():
            return path
        return os.path.join(directory, path)

    def reading(self: Any, session: Any) -> Any:
        relation = read(self, session)
        source = relation.read.data_source
        if source.format.lower() in FORMATS:
            source.paths[:] = [absolute(path) for path in source.paths]
            _change_option(source.options, absolute)
        return relation

    def writing(self: Any, session: Any) -> Any:
        command = write(self, session)
        target = command.write_operation
        if target.source.lower() in FORMATS:
            if target.HasField("path"):
                target.path = absolute(target.path)
            _change_option(target.options, absolute)
        return command

    plan.DataSource.plan = reading  # type: ignore[method-assign]
    plan.WriteOperation.command = writing  # type: ignore[method-assign]


def _change_option(options: Any, absolute: Callable[[str], str]) -> None:
    if "path" in options:
        options["path"] = absolute(options["path"])
