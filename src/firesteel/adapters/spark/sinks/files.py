"""Sinks a pipeline function can write to: files in directories.

In a pipeline the files are staged beside the target, and become visible once, when the job's master commits them:
docs/sinks.md says what a reader sees meanwhile. Elsewhere (in a unit test of the function) Spark writes them at once.
"""

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from firesteel.adapters.spark.refusals import SinkRefused, StorageFailed, TargetExists
from firesteel.adapters.spark.session.columns import columns_in
from firesteel.adapters.spark.session.context import AttemptContext, current_attempt
from firesteel.adapters.spark.sinks import writeroptions
from firesteel.adapters.storage import local
from firesteel.adapters.storage.errors import TargetRefused, Unusable
from firesteel.adapters.storage.schemes import missing_jars, missing_scheme, scheme_name
from firesteel.adapters.storage.serving import sink_store
from firesteel.adapters.storage.sinks import remove_location, remove_unremoved
from firesteel.adapters.storage.sinkstore import SinkStore
from firesteel.adapters.storage.unremoved import needed_again
from firesteel.model.tasks import SinkCommit
from firesteel.runtime.ports import TaskFailedError

OVERWRITE_PARTITIONS = "overwrite-partitions"
"""The mode of a commit that replaces the partitions it has rows for."""
_UNSUPPORTED_TYPES = (
    "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE",
    "EMPTY_SCHEMA_NOT_SUPPORTED_FOR_DATASOURCE",
    "UNSUPPORTED_FEATURE.COLLATIONS_IN_MAP_KEYS",
)
"""Spark's errors for columns that a format can't hold, before it runs anything."""
_PARTITION_OVERWRITE_SETTING = "spark.sql.sources.partitionOverwriteMode"


def write_parquet(
    df: Any,
    path: str,
    mode: str = "overwrite",
    partition_by: str | Sequence[str] = (),
    *,
    overwrite_partitions: str = "",
    **options: Any,
) -> None:
    """Write `df` as Parquet files into the directory `path`; relative paths start where `firesteel` was started.
    `s3a://BUCKET/PATH` is a place in a bucket.

    `mode`: `overwrite`, `append`, `error` (also `errorifexists`), or `ignore`, which writes nothing where there is
    data. `overwrite_partitions="dynamic"` replaces only those partitions of `partition_by` that `df` has rows for; by
    default Spark's own setting decides (spark.sql.sources.partitionOverwriteMode, "static": all is replaced). `options`
    are those of Spark's writer.
    Raises ValueError for what can't be done, FileExistsError for mode "error" on existing data.
    """
    write_files("parquet", df, FileTarget(path, mode, partition_by, overwrite_partitions, options))


def write_csv(
    df: Any,
    path: str,
    mode: str = "overwrite",
    partition_by: str | Sequence[str] = (),
    *,
    overwrite_partitions: str = "",
    **options: Any,
) -> None:
    """Write `df` as CSV files: `fs.write_csv(df, path, header=True, sep=";")`. See write_parquet."""
    write_files("csv", df, FileTarget(path, mode, partition_by, overwrite_partitions, options))


def write_json(
    df: Any,
    path: str,
    mode: str = "overwrite",
    partition_by: str | Sequence[str] = (),
    *,
    overwrite_partitions: str = "",
    **options: Any,
) -> None:
    """Write `df` as files of one JSON object a line. See write_parquet."""
    write_files("json", df, FileTarget(path, mode, partition_by, overwrite_partitions, options))


def write_text(
    df: Any,
    path: str,
    mode: str = "overwrite",
    partition_by: str | Sequence[str] = (),
    *,
    overwrite_partitions: str = "",
    **options: Any,
) -> None:
    """Write the one string column of `df`, beside those of `partition_by`, as lines of text. See write_parquet."""
    write_files("text", df, FileTarget(path, mode, partition_by, overwrite_partitions, options))


@dataclass(slots=True)
class FileTarget:
    """The place and the manner of a write, as the user said it; `checked` makes it what the rest relies on."""

    path: str
    mode: str
    keys: str | Sequence[str]
    overwrite_partitions: str
    options: dict[str, Any] = field(default_factory=dict)

    def checked(self, file_format: str, call: str = "") -> "FileTarget":
        """Raises SinkRefused. `call` is what the user has called, for messages."""
        call = call or f"write_{file_format}"
        mode = writeroptions.checked_mode(call, self.mode)
        keys = writeroptions.checked_columns(call, "partition_by", self.keys)
        options = writeroptions.checked_options(call, file_format, self.options)
        given = [name for name in options if name.lower() == writeroptions.PARTITION_OVERWRITE_MODE.lower()]
        dynamic = self.overwrite_partitions or "".join(options.pop(name) for name in given)
        if dynamic.lower() not in ("", "static", "dynamic"):
            raise SinkRefused(f"{call}: overwrite_partitions={dynamic!r} is neither 'static' nor 'dynamic'")
        if self.overwrite_partitions and (mode != "overwrite" or not keys):
            raise SinkRefused(f"{call}: overwrite_partitions goes with mode='overwrite' and partition_by=[...]")
        return FileTarget(self.path, mode, keys, dynamic.lower(), options)


def write_files(file_format: str, df: Any, target: FileTarget) -> None:
    """Write at once, or stage for the attempt that runs here. Raises SinkRefused or TargetExists."""
    target = target.checked(file_format)
    if file_format == "text":
        _check_lines(df, target.keys)
    settle_partitions(df, target)
    with current_attempt.writing() as attempt:
        if attempt is not None:
            _stage(attempt, df, file_format, target)
            return
        if target.overwrite_partitions:
            target.options[writeroptions.PARTITION_OVERWRITE_MODE] = target.overwrite_partitions
        _write(df, file_format, target, target.path, target.mode)


def settle_partitions(df: Any, target: FileTarget) -> None:
    """Set which partitions are overwritten, by Spark's setting where the user has not said so."""
    if target.mode == "overwrite" and target.keys and not target.overwrite_partitions:
        target.overwrite_partitions = df.sparkSession.conf.get(_PARTITION_OVERWRITE_SETTING, "static").lower()


def _stage(attempt: AttemptContext, df: Any, file_format: str, target: FileTarget) -> None:
    call = f"write_{file_format}"
    with told_by(call):
        store = sink_store(target.path, attempt.storage)
        path = store.resolve(target.path, attempt.client_directory, replaces=target.mode == "overwrite")
        exists = target.mode in ("error", "ignore") and store.holds_data(path)
    if exists:
        if target.mode == "ignore":
            writeroptions.note_ignored(call, path)
            return
        raise TargetExists(f"{path} exists and holds data; use mode='overwrite' or 'append', or another path")
    attempt.sinks.append(stage_files(df, file_format, target, path))


@contextlib.contextmanager
def told_by(call: str, target: str = "") -> Iterator[None]:
    """What a storage says no to, as the error of the function that was called; `target` is where it was about to stage. Raises
    SinkRefused or StorageFailed."""
    try:
        yield
    except (TargetRefused, Unusable) as error:
        raise SinkRefused(f"{call}: {error}") from None
    except OSError as error:
        is_local = target and "://" not in target and error.errno is not None
        told = f"{target}: {local.advice(error, Path(target), is_committing=False)}" if is_local else str(error)
        raise StorageFailed(f"{call}: {told}") from error


def stage_files(df: Any, file_format: str, target: FileTarget, path: str) -> SinkCommit:
    """Write the files, in an attempt, beside the resolved target `path`, which they are to go to."""
    from firesteel.adapters.spark.exchange import footers

    attempt = current_attempt.get()
    assert attempt is not None, "staged for an attempt"
    assert attempt.function is not None, "a sink runs inside a function"
    place, identity = len(attempt.sinks), attempt.deployment.attempt
    store = sink_store(path, attempt.storage)
    staging = store.staging(path, identity.job_id, attempt.name, str(place))
    attempt.report_staging(staging)
    attempt.allow_write(store.as_spark(staging))
    mode = OVERWRITE_PARTITIONS if target.overwrite_partitions == "dynamic" else target.mode
    commit = SinkCommit(
        commit_id=attempt.new_commit_id(),
        vertex_id=attempt.vertex_id,
        function=attempt.function.name,
        format=file_format,
        mode=mode,
        target=path,
        place=store.place(path),
        staging=staging,
        files=(),
    )
    attempt.check_target(commit)
    with told_by(f"write_{file_format}", path):
        remove_unremoved(store.staging(path), attempt.storage)
        _remove_former(attempt, store, path)
        needed_again(staging)
        store.prepare(path, staging)
    files = _write_staged(df, file_format, target, store, staging)
    commit = msgspec.structs.replace(commit, files=tuple(sorted(files)), size_bytes=sum(files.values()))
    if file_format != "parquet":
        return commit
    found = footers.read(lambda name: store.end_of(staging, name), commit.files)
    columns = columns_in(found[0], target.keys, lambda: df.schema) if found else ()
    return msgspec.structs.replace(commit, rows=footers.rows_in(found), columns=columns)


def _remove_former(attempt: AttemptContext, store: SinkStore, path: str) -> None:
    """Remove what earlier attempts of this region have left there: of no use to anybody; their worker may be dead."""
    identity = attempt.deployment.attempt
    for number in range(identity.attempt):
        with contextlib.suppress(TaskFailedError):  # then it is noted
            remove_location(store.staging(path, identity.job_id, f"{identity.region}-{number}"), attempt.storage)


def _write_staged(df: Any, file_format: str, target: FileTarget, store: SinkStore, staging: str) -> dict[str, int]:
    """Files and sizes. No rows in no partition is no file; then one without partitions holds the columns' names."""
    target.options[writeroptions.PARTITION_OVERWRITE_MODE] = "static"
    where = store.as_spark(staging)
    _write(df, file_format, target, where, "overwrite")
    files = _staged(store, file_format, staging)
    if not files and target.overwrite_partitions != "dynamic" and file_format != "text":
        whole = FileTarget(target.path, target.mode, (), "", target.options)
        _write(df.where("1 = 0"), file_format, whole, where, "overwrite")  # no limit: that needs more than a share
        files = _staged(store, file_format, staging)
    return files


def _staged(store: SinkStore, file_format: str, staging: str) -> dict[str, int]:
    with told_by(f"write_{file_format}"):
        return store.files(staging)


def _check_lines(df: Any, keys: Sequence[str]) -> None:
    named = {key.lower() for key in keys}
    lines = [each for each in df.schema.fields if each.name.lower() not in named]
    if len(lines) != 1 or lines[0].dataType.typeName() not in ("string", "varchar", "char"):
        shown = ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in lines) or "none"
        raise SinkRefused(
            f"write_text writes one column of type string, and here it is: {shown}; make one of them, with"
            ' df.select(F.concat_ws("\\t", "a", "b")) or df.select(F.to_json(F.struct("*"))), or use write_csv'
        )


def _write(df: Any, file_format: str, target: FileTarget, path: str, mode: str) -> None:
    from pyspark.errors import AnalysisException, PySparkException

    writer = df.write.mode(mode).format(file_format).options(**target.options)
    if target.keys:
        writer = writer.partitionBy(*target.keys)
    try:
        writer.save(path)
    except AnalysisException as error:
        if error.getCondition() not in _UNSUPPORTED_TYPES:
            raise
        (told,) = re.findall(r"(?s)^(?:\[[\w.]+\] )?(.*?)\.?\s*(?:SQLSTATE|$)", str(error))
        raise SinkRefused(f"write_{file_format}: {told}; cast it, to string for one, or leave it out") from None
    except PySparkException as error:
        scheme = missing_scheme(str(error))
        if not scheme or scheme != scheme_name(path):
            raise  # what `df` reads is in another storage
        raise SinkRefused(f"write_{file_format}: {missing_jars(scheme, target.path)}") from None
