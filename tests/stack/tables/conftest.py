"""Spark with the connector of a table format, in the newest version of Spark that the connector is released for."""

import asyncio
import contextlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from firesteel.adapters.blob.local import LocalBlobStore
from firesteel.adapters.spark.staged.references import SinkWork
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.model.options import Configuration
from firesteel.model.tasks import SinkCommit
from firesteel.runtime.ports import TaskFailedError
from tests.connectmode import connect_mode
from tests.integration.spark.inprocess import InProcess
from tests.stack.tables.formats import FORMATS, Format
from tools import olderspark

Do = Callable[[Any], Any]
PERFORM = "firesteel.adapters.spark.sinks.versionedcommit:perform"
KILLED = "tests.stack.tables.killed:perform"


@pytest.fixture(scope="module", params=FORMATS, ids=lambda each: each.name)
def table_format(request: pytest.FixtureRequest) -> Format:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def scratch(table_format: Format, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp(table_format.name)


@pytest.fixture(scope="module")
def older_spark(table_format: Format) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SPARK_HOME", str(olderspark.home(table_format.spark)))
        yield


@pytest.fixture(scope="module")
def backend(do: Do, scratch: Path, table_format: Format, older_spark: None) -> Iterator[SparkTaskBackend]:
    own = {"taskmanager.spark.class-data-archive": "false", "taskmanager.spark.start-timeout": "5 min"}
    configuration = Configuration({**own, **table_format.settings(scratch / "warehouse")})
    backend = SparkTaskBackend(configuration, scratch / "work", LocalBlobStore(scratch / "blobs"))
    do(backend.start())
    yield backend
    do(backend.close())
    shutil.rmtree(scratch / "work")


@pytest.fixture(scope="module")
def tables(backend: SparkTaskBackend, scratch: Path, do: Do, table_format: Format) -> Iterator["Tables"]:
    with connect_mode(), contextlib.closing(InProcess(backend, scratch / "inprocess", do)) as local:
        yield Tables(local, backend, do, table_format)


class Tables:
    """Jobs that write tables of one format, staged and committed, and what is to be seen of them."""

    def __init__(self, local: InProcess, backend: SparkTaskBackend, do: Do, table_format: Format) -> None:
        self.local, self.backend, self.do, self.format = local, backend, do, table_format

    def name(self, table: str) -> str:
        return self.format.table(table)

    def commit(self, commits: tuple[SinkCommit, ...]) -> None:
        """As a worker does, and another at the same time, and then one once more."""

        async def at_once(commit: SinkCommit, other: bytes) -> None:
            results = await asyncio.gather(
                self.backend.commit(commit), self.backend.call(PERFORM, other), return_exceptions=True
            )
            assert not isinstance(results[0], BaseException) or not isinstance(results[1], BaseException), results

        for commit in commits:
            self.do(at_once(commit, msgspec.json.encode(self._work(commit))))
            self.do(self.backend.commit(commit))

    def _work(self, commit: SinkCommit) -> SinkWork:
        endpoint = self.do(self.backend.endpoint())
        return SinkWork(references=commit.stagings, commit_id=commit.commit_id, mode=commit.mode, endpoint=endpoint)

    def write(self, *call: Any, **options: Any) -> None:
        self.commit(self.local.stage_table(*call, **options))

    def kill_in(self, commit: SinkCommit, place: str) -> None:
        """The process that commits it is killed there; what it has begun in Spark goes on."""
        payload = {**msgspec.json.decode(msgspec.json.encode(self._work(commit))), "dies": place}
        with pytest.raises(TaskFailedError):
            self.do(self.backend.call(KILLED, msgspec.json.encode(payload)))

    def rows(self, table: str) -> Counter[tuple[Any, ...]]:
        spark = self.local.spark
        spark.sql(f"REFRESH TABLE {self.name(table)}")
        return Counter(map(tuple, spark.table(self.name(table)).collect()))

    def versions(self, table: str) -> int:
        return self.format.versions(self.local.spark, self.name(table))

    def read_back(self, table: str) -> Counter[tuple[Any, ...]]:
        """By another engine."""
        return self.format.read_back(self.local.spark, self.name(table))
