"""What is known of stored results without Spark: in directories, and in a bucket and an HDFS in memory."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pyarrow
import pyarrow.parquet
import pytest

from firesteel.adapters.spark.exchange.resultfiles import (
    MANIFEST_FILE,
    Manifest,
    PartitionLost,
    ResultFiles,
    ResultsUnreachable,
)
from firesteel.adapters.storage.directories import Directories
from firesteel.adapters.storage.errors import Unusable
from firesteel.adapters.storage.hdfsdirectories import HdfsDirectories
from firesteel.adapters.storage.keys import Patient
from firesteel.adapters.storage.localdirectories import LocalDirectories
from firesteel.adapters.storage.objectdirectories import ObjectDirectories
from firesteel.adapters.storage.resultslocation import results_location
from firesteel.adapters.storage.webhdfs import WebHdfs
from firesteel.model.ids import DataSetID
from firesteel.model.options import Configuration, ConfigurationError
from firesteel.model.tasks import ResultPartition
from tests.integration.storage.fakehdfs import FakeHdfs
from tests.integration.storage.fakekeys import FakeKeys, Time

SHARES = (
    ("subpartition=0/part-00000-x.parquet", "subpartition=0/part-00001-x.parquet"),
    ("subpartition=1/part-00000-x.parquet",),
)


class Stored:
    """A result of one producer with two subpartitions, as Spark leaves it, of 10 rows a file."""

    def __init__(self, directories: Directories, location: str, put: Callable[[str, bytes], None]) -> None:
        self.directories, self.location, self.put = directories, location, put
        data = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.table({"c0": range(10)}), data)
        for name in (*SHARES[0], *SHARES[1]):
            put(name, data.getvalue())
        put("_temporary/0/part-00002-x.parquet", b"of a task that failed")
        self.partition = ResultPartition(
            dataset_id=DataSetID("d"), subtask=0, location=location, rows=30, size_bytes=1, subpartitions=2
        )

    def files(self) -> ResultFiles:
        return ResultFiles(lambda location: self.directories)

    def describe(self) -> None:
        self.files().describe(self.location, Manifest(schema="{}", voids=(), files=SHARES))


@pytest.fixture
def keys() -> FakeKeys:
    return FakeKeys()


@pytest.fixture
def hdfs() -> FakeHdfs:
    return FakeHdfs()


@pytest.fixture(params=["directory", "bucket", "hdfs"])
def stored(request: pytest.FixtureRequest, tmp_path: Path, keys: FakeKeys, hdfs: FakeHdfs) -> Stored:
    def write(name: str, data: bytes) -> None:
        path = tmp_path / "of it" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    if request.param == "directory":
        return Stored(LocalDirectories(), str(tmp_path / "of it"), write)
    if request.param == "hdfs":
        in_hdfs = HdfsDirectories(cast(WebHdfs, hdfs))
        return Stored(in_hdfs, "hdfs://nn:8020/of it", lambda name, data: hdfs.write(f"/of it/{name}", data))
    directories = ObjectDirectories(Patient(keys, lambda: None, Time().wait))
    keys.write("of it/", b"")
    return Stored(directories, "s3a://bucket/of it", lambda name, data: keys.write(f"of it/{name}", data))


def test_each_consumer_reads_its_share(stored: Stored) -> None:
    files = stored.files()
    assert list(files.written(stored.location)) == [*SHARES[0], *SHARES[1]]
    with pytest.raises(PartitionLost):
        files.check_there([stored.partition], range(1))
    stored.describe()
    for subtask, names in enumerate(SHARES):
        (share,) = files.check_there([stored.partition], range(subtask, subtask + 1))
        assert (share.location, tuple(share.sizes)) == (stored.location, names)
        assert all(size > 100 for size in share.sizes.values())
        assert files.rows_of([stored.partition], range(subtask, subtask + 1)) == 10 * len(names)
    two = files.check_there([stored.partition, stored.partition], range(1))
    assert [share.location for share in two] == [stored.location] * 2


def test_files_of_many_tasks_are_in_the_order_of_these(stored: Stored) -> None:
    names = [f"part-{task}-x.parquet" for task in ("00009", "99999", "100000")]
    for name in reversed(names):
        stored.put(name, b"")
    found = [name for name in stored.files().written(stored.location) if name.startswith("part-")]
    assert found == names


@pytest.mark.parametrize("torn", [b"", b'{"version":1,"schema"'])
def test_a_result_without_its_manifest_is_lost(stored: Stored, torn: bytes) -> None:
    stored.put(MANIFEST_FILE, torn)
    with pytest.raises(PartitionLost) as lost:
        stored.files().check_there([stored.partition], range(1))
    assert lost.value.location == stored.location


def test_all_of_it_is_removed(stored: Stored, keys: FakeKeys, hdfs: FakeHdfs) -> None:
    stored.describe()
    keys.uploads.append("of it/part-00003-x.parquet")
    keys.write("of itself/x", b"somebody else's")
    for _ in range(2):
        stored.directories.remove(stored.location)
    with pytest.raises(PartitionLost):
        stored.files().check_there([stored.partition], range(1))
    if stored.location.startswith("s3a:"):
        assert (list(keys.contents), keys.uploads) == (["of itself/x"], [])
    if stored.location.startswith("hdfs:"):
        assert list(hdfs.entries) == [""]


def test_a_busy_bucket_is_waited_for_and_one_that_says_no_is_told(keys: FakeKeys) -> None:
    time = Time()
    directories = ObjectDirectories(Patient(keys, lambda: None, time.wait))
    stored = Stored(directories, "s3a://bucket/of it", lambda name, data: keys.write(f"of it/{name}", data))
    stored.describe()
    keys.fail_at = frozenset(range(keys.requests, keys.requests + 3))
    assert len(stored.files().check_there([stored.partition], range(1))) == 1
    assert time.now > 0
    keys.fail_at, keys.error = frozenset(range(10_000)), lambda: Unusable("s3://bucket/of it: says AccessDenied")
    asked = keys.requests
    with pytest.raises(ResultsUnreachable, match=r"the storage of results: s3://bucket/of it: says AccessDenied"):
        stored.files().check_there([stored.partition], range(1))
    assert keys.requests == asked + 1, "it is not asked again"


@pytest.mark.parametrize(
    ("given", "location"),
    [
        ("", ""),
        ("/shared/results/", "/shared/results"),
        ("file:///shared/of%20it", "/shared/of it"),
        ("s3://bucket/path/", "s3a://bucket/path"),
        ("s3a://bucket//a/b", "s3a://bucket/a/b"),
        ("hdfs://nn:8020//of it/x/", "hdfs://nn:8020/of it/x"),
        ("HDFS://service/x", "hdfs://service/x"),
    ],
)
def test_a_location_is_named_as_spark_names_it(given: str, location: str) -> None:
    assert results_location(Configuration({"cluster.results-dir": given})) == location


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("results", "cluster.results-dir: 'results' is not absolute: all workers are to find it"),
        (
            "s4://bucket/x",
            r"cluster.results-dir: s4://bucket/x: s4:// is no storage that firesteel knows; did you mean s3",
        ),
        ("gs://nn/x", "cluster.results-dir: gs://nn/x: firesteel does not write to gs:// yet"),
        ("hdfs:///x", "cluster.results-dir: hdfs:///x names no NameNode: write hdfs://HOST:PORT/PATH"),
        ("hdfs://nn:8020", "cluster.results-dir: hdfs://nn:8020 is a whole file system: write to a path in it"),
        ("s3://bucket", r"cluster.results-dir: s3://bucket is a whole bucket: write to a path in it"),
    ],
)
def test_a_location_that_can_not_be_is_refused(given: str, told: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        results_location(Configuration({"cluster.results-dir": given}))
    assert str(refused.value).startswith(told)
