"""Storages for savepoints, and queries whose savepoints are put there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from firesteel.adapters.storage.keys import Keys
from firesteel.adapters.storage.s3keys import S3Keys
from firesteel.adapters.storage.s3settings import S3Access
from tests.adapters.snapshots.buckets import settings
from tests.adapters.snapshots.checkpoints import FakeCheckpoint
from tests.adapters.snapshots.storages import FAKES, Bucket, InHdfs, Storage
from tests.durable.s3 import s3_server
from tests.integration.storage.fakekeys import FakeKeys


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3_server(tmp_path_factory.mktemp("s3")) as url:
        yield url


@pytest.fixture(params=["memory", "s3"])
def keys(request: pytest.FixtureRequest, s3: str) -> Iterator[Keys]:
    found: Keys = FakeKeys() if request.param == "memory" else S3Keys("firesteel", S3Access.of(settings(s3)))
    yield found
    found.delete([each.key for each in found.found("")])


@pytest.fixture(params=["memory", "s3", "hdfs"])
def storage(request: pytest.FixtureRequest, s3: str) -> Iterator[Storage]:
    """Any of them."""
    if request.param == "hdfs":
        yield InHdfs()
        return
    if request.param == "memory":
        yield Bucket()
        return
    found = S3Keys("firesteel", S3Access.of(settings(s3)))
    yield Bucket(found)
    found.delete([each.key for each in found.found("")])


@pytest.fixture(params=FAKES, ids=lambda each: each.__name__)
def fake(request: pytest.FixtureRequest) -> Storage:
    """One whose requests fail when they are told to."""
    made: Storage = request.param()
    return made


@pytest.fixture
def saved_queries(tmp_path: Path) -> dict[str, str]:
    made = {
        "result": FakeCheckpoint(tmp_path / "job/result/0").commit(5),
        "a/b ü": FakeCheckpoint(tmp_path / "job/other/0").commit(2),
    }
    return {uid: str(query.root) for uid, query in made.items()}
