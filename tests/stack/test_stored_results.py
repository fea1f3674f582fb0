"""Stored results in a bucket: what holds for them in directories, with Spark's own S3A client and a server."""

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
from tests.stack.conftest import Do, s3_settings
from tests.stack.test_s3_commits import keys_at


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module")
def backend(do: Do, s3: str, scratch: Path) -> Iterator[SparkTaskBackend]:
    backend = SparkTaskBackend(Configuration(s3_settings(s3)), scratch / "work", LocalBlobStore(scratch / "blobs"))
    do(backend.start())
    yield backend
    do(backend.close())
    shutil.rmtree(scratch / "work")


class InBucket(Storage):
    """Below a prefix with characters that a URI would have quoted."""

    def __init__(self, url: str) -> None:
        self.prefix = f"stored results/{uuid.uuid4().hex}"
        super().__init__(f"s3a://firesteel/{self.prefix}")
        self.settings = hadoop_settings(Configuration(s3_settings(url)), {})
        self.keys = keys_at(url)

    def delete(self, location: str, name: str) -> None:
        self.keys.delete([f"{location.removeprefix('s3a://firesteel/')}/{name}"])


@pytest.fixture
def storage(s3: str) -> InBucket:
    return InBucket(s3)
