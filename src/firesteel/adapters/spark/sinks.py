"""Sinks a pipeline function can write to."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from firesteel.adapters.spark.context import AttemptContext, current_attempt
from firesteel.model.ids import derived_id
from firesteel.model.tasks import SinkCommit

STAGING_NAME = ".firesteel-staging"
_MODES = ("overwrite", "append", "error")


def write_parquet(df: Any, path: str, mode: str = "overwrite", partition_by: Sequence[str] = ()) -> None:
    """Write `df` as Parquet files into the directory `path`.

    In a pipeline the files are staged beside the target, and become visible once, when the job's master commits
    them: with `overwrite` and `error` all at once, with `append` file by file. Elsewhere (in a unit test of the
    function) they are written at once. Relative paths start where `firesteel` was started.
    Raises ValueError for a mode or a path that can't be used, FileExistsError for mode "error" on existing data.
    """
    if mode not in _MODES:
        raise ValueError(f"write_parquet: mode {mode!r} is none of {', '.join(_MODES)}")
    keys = [partition_by] if isinstance(partition_by, str) else list(partition_by)
    attempt = current_attempt.get()
    if attempt is None:
        _write(df, path, mode, keys)
    else:
        _stage(attempt, df, path, mode, keys)


def _stage(attempt: AttemptContext, df: Any, path: str, mode: str, keys: list[str]) -> None:
    from firesteel.adapters.spark import footers

    target = local_path(path, attempt.client_directory)
    _check_target(attempt, target, mode, keys)
    assert attempt.function is not None, "a sink runs inside a function"
    place = len(attempt.sinks)
    identity = attempt.deployment.attempt
    staging = target.parent / STAGING_NAME / identity.job_id / attempt.name / str(place)
    attempt.report_staging(staging)
    _write(df, str(staging), "overwrite", keys)
    files = tuple(sorted(_data_files(staging)))
    rows, size = footers.count(staging, files)
    attempt.sinks.append(
        SinkCommit(
            commit_id=derived_id("sink", identity.job_id, identity.region, identity.attempt, place),
            vertex_id=attempt.vertex_id,
            function=attempt.function.name,
            format="parquet",
            mode=mode,
            target=str(target),
            staging=str(staging),
            files=files,
            rows=rows,
            size_bytes=size,
        )
    )


def local_path(path: str, base: Path) -> Path:
    """`path` or `file:` URI as an absolute path with links resolved, so that a swap replaces data and not a link."""
    parts = urlsplit(path)
    if parts.scheme not in ("", "file"):
        raise ValueError(f"write_parquet: {parts.scheme}:// targets are not supported yet, only local paths: {path}")
    plain = unquote(parts.path) if parts.scheme == "file" else path
    return Path(os.path.realpath(base / os.path.expanduser(plain)))


def _check_target(attempt: AttemptContext, target: Path, mode: str, keys: list[str]) -> None:
    overwrite_mode = attempt.settings.get("spark.sql.sources.partitionOverwriteMode", "static")
    if mode == "overwrite" and keys and overwrite_mode.lower() == "dynamic":
        raise ValueError("write_parquet: dynamic partition overwrite is not supported yet; use mode='append'")
    if mode == "error" and target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise FileExistsError(f"{target} exists and holds data; use mode='overwrite' or 'append', or another path")
    if os.path.ismount(target):
        raise ValueError(f"write_parquet: {target} is a mount point; write to a directory below it")


def _write(df: Any, path: str, mode: str, keys: list[str]) -> None:
    writer = df.write.mode(mode)
    if keys:
        writer = writer.partitionBy(*keys)
    writer.parquet(path)


def _data_files(staging: Path) -> list[str]:
    found = []
    for parent, directories, names in os.walk(staging):
        directories[:] = [name for name in directories if not _is_hidden(name)]
        found += [os.path.relpath(os.path.join(parent, name), staging) for name in names if not _is_hidden(name)]
    return found


def _is_hidden(name: str) -> bool:
    """Spark's own rule for what is not data: `_a=1` is a partition of a column named `_a`."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
