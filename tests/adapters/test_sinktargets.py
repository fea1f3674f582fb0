"""Targets that nobody means are refused before anything is staged: an empty path, and where the job was submitted."""

import errno
import os
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from firesteel.adapters.spark.refusals import SinkRefused, StorageFailed
from firesteel.adapters.spark.session.context import current_attempt
from firesteel.adapters.spark.sinks import versioned
from firesteel.adapters.spark.sinks.files import FileTarget, told_by, write_csv, write_parquet
from firesteel.adapters.spark.sinks.jdbc import write_jdbc
from firesteel.adapters.spark.sinks.versions import VersionedTable
from firesteel.adapters.storage.localsinks import LocalSinks, local_path

LAKE = VersionedTable(name="lake.db.orders", format="iceberg", exists=False)


@pytest.fixture
def submitted(tmp_path: Path) -> Any:
    """An attempt of a job that was submitted in a directory with a file."""
    here = tmp_path / "mine" / "project"
    here.mkdir(parents=True)
    (here / "pipeline.py").touch()
    attempt: Any = SimpleNamespace(
        client_directory=here, sinks=[], storage={}, function=SimpleNamespace(name="out"), allow_write=print
    )
    with current_attempt.calling(attempt):
        yield here


@pytest.mark.parametrize("path", ["", " ", "file:", "file://"])
@pytest.mark.parametrize("mode", ["overwrite", "append"])
@pytest.mark.parametrize("write", [write_parquet, write_csv])
def test_an_empty_target_is_refused(submitted: Path, write: Any, path: str, mode: str) -> None:
    """`--param out="$UNSET"` would replace the directory where the command was called."""
    with pytest.raises(SinkRefused, match="names no path"):
        write(None, path, mode)


@pytest.mark.parametrize("path", [".", "..", "../../mine", "./", "{here}"])
def test_what_holds_the_submitters_files_is_not_replaced(submitted: Path, path: str) -> None:
    with pytest.raises(SinkRefused, match="is where the job was submitted, or holds that"):
        write_parquet(None, path.format(here=submitted))


def test_a_directory_below_it_may_be(submitted: Path) -> None:
    assert local_path("out", submitted) == submitted / "out"
    assert local_path("file:///x/y", submitted) == Path("/x/y")


def test_a_uri_is_read_as_spark_reads_it(submitted: Path) -> None:
    """Hadoop's `Path` knows no escapes, no queries and no fragments: what is written must be found by `spark.read`."""
    for uri in ("file:///x/a%20b", "file:/x/a%20b", "file://host/x/a%20b"):
        assert local_path(uri, submitted) == Path("/x/a%20b")
    assert local_path("file:///x/a#b?c", submitted) == Path("/x/a#b?c")


@pytest.mark.parametrize(
    ("path", "says"),
    [
        (
            "gs://bucket/x",
            "write_parquet: gs://bucket/x: firesteel does not write to gs:// yet .served are paths, file:, s3://",
        ),
        ("hdfs:///x", "hdfs:///x names no NameNode: write hdfs://HOST:PORT/PATH"),
        ("hdfs://nn:8020", "hdfs://nn:8020 is a whole file system: write to a path in it"),
        ("hdfs://nn/a/../b", "has a step . or .."),
        ("abfss://c@a.dfs.core.windows.net/x", "firesteel does not write to abfss:// yet"),
        ("s4://bucket/x", r"s4://bucket/x: s4:// is no storage that firesteel knows; did you mean s3://\?"),
        ("s3n://bucket/x", "did you mean s3://"),
        ("hfds://bucket/x", "did you mean hdfs://"),
        ("ftp://host/x", r"ftp://host/x: ftp:// is no storage that firesteel knows"),
        ("s3:///x", "s3:///x names no bucket: write s3://BUCKET/PATH"),
        ("s3a://{bucket}/x", "names no bucket"),
        ("s3a://bucket", "s3a://bucket is a whole bucket: write to a path in it"),
        ("s3a://bucket/a/../b", "has a step . or .."),
    ],
)
def test_what_is_not_served_is_refused_by_name(submitted: Path, path: str, says: str) -> None:
    with pytest.raises(SinkRefused, match=says):
        write_parquet(None, path)


@pytest.mark.parametrize(
    "write",
    [
        lambda mode: write_jdbc(None, "jdbc:postgresql://db/shop", "orders", mode, key="id"),
        lambda mode: versioned.write(None, LAKE, FileTarget(LAKE.name, mode, (), ""), "id"),
    ],
)
def test_a_slip_in_the_mode_of_a_table_is_told_with_upsert(write: Any) -> None:
    known = "overwrite, append, error, ignore, upsert; did you mean 'upsert'"
    with pytest.raises(SinkRefused, match=f"mode 'upsrt' is none of {known}"):
        write("upsrt")


def test_a_place_that_holds_no_files_is_told_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for top, why in (("/proc", "No such file or directory"), (str(tmp_path / "file"), "Not a directory")):
        target = f"{top}/out"
        says = (
            f"write_parquet: {target}: the worker on {socket.gethostname()} (user {os.geteuid()}) can't make a directory in"
            f" {top} ({why}): write to a place that holds files"
        )
        store = LocalSinks()
        with pytest.raises(StorageFailed) as failed, told_by("write_parquet", target):
            store.prepare(target, store.staging(target, "job", "0-0", "0"))
        assert str(failed.value) == says


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (
            errno.EROFS,
            "can't write /mnt/.firesteel-staging, which is mounted read-only there: mount it for writing, or",
        ),
        (errno.EPERM, "may not write /mnt/.firesteel-staging (Operation not permitted): grant it, or write elsewhere"),
        (errno.ENOSPC, "no space is left for /mnt/out"),
    ],
)
def test_why_nothing_can_be_staged_is_a_sentence_that_says_where_and_what_to_do(number: int, says: str) -> None:
    with pytest.raises(StorageFailed) as failed, told_by("write_csv", "/mnt/out"):
        raise OSError(number, os.strerror(number), "/mnt/.firesteel-staging")
    assert str(failed.value).startswith("write_csv: /mnt/out: ")
    assert says in str(failed.value)
    assert "Errno" not in str(failed.value)
