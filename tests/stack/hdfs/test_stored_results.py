"""Stored results in HDFS: what holds for them in directories, with Spark's own client and Hadoop's servers."""

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from firesteel.adapters.blob.local import LocalBlobStore
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.adapters.storage.s3settings import hadoop_settings
from firesteel.model.options import Configuration
from tests.integration.spark.conftest import local  # noqa: F401 - on the backend of this module
from tests.integration.spark.storages import Storage
from tests.integration.spark.test_exchanges import *  # noqa: F403 - the same tests, with the fixtures of this module
from tests.stack.conftest import Do
from tests.stack.hadoop import Hdfs
from tests.stack.hdfs.conftest import hdfs_settings


class InHdfs(Storage):
    """Below a directory with characters that a URI would have quoted."""

    def __init__(self, servers: Hdfs) -> None:
        self.path = f"/stored results/ü=%20 {uuid.uuid4().hex}"
        super().__init__(servers.uri(self.path))
        self.settings = hadoop_settings(Configuration(hdfs_settings(servers)), {})
        self._servers = servers

    def delete(self, location: str, name: str) -> None:
        path = f"{location.removeprefix(self._servers.uri(''))}/{name}"
        assert self._servers.client().delete(path, recursive=False)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module")
def backend(do: Do, servers: Hdfs, scratch: Path) -> Iterator[SparkTaskBackend]:
    backend = SparkTaskBackend(
        Configuration(hdfs_settings(servers)), scratch / "work", LocalBlobStore(scratch / "blobs")
    )
    do(backend.start())
    yield backend
    do(backend.close())
    shutil.rmtree(scratch / "work")


@pytest.fixture
def storage(servers: Hdfs) -> Iterator[InHdfs]:
    made = InHdfs(servers)
    yield made
    servers.client().delete(made.path, recursive=True)
