"""Rows into a real PostgreSQL: every mode, exactly once whoever dies, and no password where people look."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from firesteel.adapters.spark.worker import sinkoutput
from firesteel.adapters.spark.worker.sinkoutput import SinkOutput
from firesteel.minicluster import MiniCluster
from firesteel.model.states import JobStatus
from firesteel.model.tasks import Committed, SinkCommit
from firesteel.model.views import JobResult
from firesteel.runtime.ports import TaskFailedError
from tests.integration.cluster.conftest import Do, mini_cluster
from tests.integration.cluster.files import Files
from tests.integration.cluster.postgres import USER, Postgres, is_missing
from tools.postgres import DRIVER

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(is_missing(), reason="needs PostgreSQL and its JDBC driver: make postgres"),
]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    server = Postgres()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def cluster(do: Do, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniCluster]:
    """Whose Spark has the driver's classes."""
    with mini_cluster(do, tmp_path_factory.mktemp("jdbc"), {"spark.driver.extraClassPath": str(DRIVER)}) as made:
        yield made


SINK = """
@pipeline.source
def rows(spark: SparkSession, first: int, last: int) -> DataFrame:
    return spark.range(first, last).selectExpr("id", "concat('v', id) as `Odd name`", "cast(id as double) as x")

@pipeline.sink
def result(rows: DataFrame, url: str, table: str, mode: str, password: str, key: str = "") -> None:
    properties = {"user": "tester", "password": password}
    fs.write_jdbc(rows, url, table, mode, properties=properties, key=[key] if key else (), batchsize=10)
"""


class Sink:
    """Runs SINK against the server."""

    def __init__(self, files: Files, postgres: Postgres) -> None:
        self.files, self.postgres = files, postgres
        self.secret = files.scratch / "secret"
        self.secret.write_text(postgres.password + "\n")

    def run(self, table: str, mode: str, first: int, last: int, **more: str) -> JobResult:
        """More parameters of the job, and `body` in SINK's place."""
        path = self.files.write(more.pop("body", SINK))
        parameters = {"url": self.postgres.url, "table": table, "mode": mode, "first": str(first), "last": str(last)}
        parameters = {"password": f"file:{self.secret}", **parameters, **more}
        result: JobResult = self.files.do(self.files.run(path, parameters))
        return result

    def ids(self, table: str) -> list[int]:
        return [int(row) for (row,) in self.postgres.query(f"select id from {table} order by id")]


@pytest.fixture
def sink(files: Files, postgres: Postgres) -> Sink:
    assert USER == "tester"
    return Sink(files, postgres)


def test_what_came_to_be_while_a_job_ran_is_left_by_ignore(
    sink: Sink, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits, commit = [], SinkOutput.commit

    async def comes_second(self: SinkOutput, staged: SinkCommit) -> Committed:
        await asyncio.to_thread(postgres.query, "create table if not exists second (id bigint)")
        first = await commit(self, staged)
        commits.extend([first, await commit(self, staged)])  # again: its answer may have been lost
        return first

    monkeypatch.setattr(SinkOutput, "commit", comes_second)
    result = sink.run("second", "ignore", 0, 3)
    assert result.status is JobStatus.FINISHED, result.failure
    assert [(each.rows, each.note) for each in result.sinks] == [(0, commits[0].note)]
    left = "this leaves that as it is: none of its own rows are there"
    assert commits == [Committed(f"table second was written while this job ran, and {left}", ignored=True)] * 2
    assert sink.ids("second") == []


def test_every_mode_does_what_it_says(sink: Sink, postgres: Postgres) -> None:
    postgres.query("create schema s")

    def run(mode: str, first: int, last: int, **more: str) -> list[int]:
        result = sink.run('s."T"', mode, first, last, **more)
        assert result.status is JobStatus.FINISHED, result.failure
        return sink.ids('s."T"')

    assert run("error", 0, 3) == [0, 1, 2]
    assert run("append", 2, 4) == [0, 1, 2, 2, 3]
    assert run("upsert", 2, 6, key="ID") == [0, 1, 2, 3, 4, 5]
    postgres.query('create index kept on s."T" (id)')
    assert run("overwrite", 7, 9) == [7, 8]
    assert run("ignore", 1, 2) == [7, 8]
    assert postgres.query("select indexname from pg_indexes where schemaname = 's' and tablename = 'T'") == [["kept"]]
    assert postgres.query('select "Odd name", x from s."T" where id = 7') == [["v7", "7"]]
    refused = sink.run('s."T"', "error", 0, 1)
    assert refused.failure is not None
    assert "exists; use mode='overwrite'" in refused.failure.message
    assert len(postgres.query("select * from s._firesteel_commits")) == 4, "the jobs that wrote"
    sink.files.do(until_no_staging(postgres))


def test_rows_take_the_types_of_the_table_or_the_job_fails_and_shows_nothing(sink: Sink, postgres: Postgres) -> None:
    postgres.query('create table typed (id smallint, "odd NAME" varchar(3), x numeric, made timestamptz default now())')
    shared = SINK.replace("@pipeline.sink", '@pipeline.sink(parallelism=2, inputs={"rows": fs.rebalance()})')
    assert sink.run("typed", "append", 0, 3, body=shared).status is JobStatus.FINISHED
    assert postgres.query('select id, "odd NAME", x, made is null from typed where id = 1') == [["1", "v1", "1", "f"]]
    too_long = sink.run("typed", "append", 99, 200)
    assert too_long.failure is not None
    assert "value too long for type character varying(3)" in too_long.failure.message
    postgres.query("create table other (n int)")
    missing = sink.run("other", "append", 0, 1)
    assert missing.failure is not None
    assert "other has no column id, Odd name, x; it has n" in missing.failure.message
    assert sink.ids("typed") == [0, 1, 2]
    sink.files.do(until_no_staging(postgres))


async def until_no_staging(postgres: Postgres) -> None:
    import asyncio

    async with asyncio.timeout(300):
        while postgres.staging_tables():
            await asyncio.sleep(0.05)


def test_a_password_is_in_no_record_and_a_commit_counts_once(
    sink: Sink, postgres: Postgres, cluster: MiniCluster, work_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit is performed, its answer is lost, and it is performed again; its mode would show a second time."""
    commits = []
    real = sinkoutput.SinkOutput.commit

    async def twice(self: sinkoutput.SinkOutput, commit: SinkCommit) -> Committed:
        commits.append(commit)
        await real(self, commit)
        return await real(self, commit)

    monkeypatch.setattr(sinkoutput.SinkOutput, "commit", twice)
    body = SINK.replace("password: str", "secret: str").replace(
        '"password": password', '"password": open(secret).read().strip()'
    )
    parameters = {"url": postgres.url, "table": "once", "mode": "append", "first": "0", "last": "5"}
    path = sink.files.write(body, "literal.py")
    result = sink.files.do(sink.files.run(path, {**parameters, "secret": str(sink.secret)}))
    assert result.status is JobStatus.FINISHED, result.failure
    assert sink.ids("once") == [0, 1, 2, 3, 4]
    assert len(commits) == 1
    assert postgres.password not in msgspec.json.encode([commits, result]).decode()
    for reference in commits[0].stagings:
        assert postgres.password not in sinkoutput_text(reference)
    for log in work_dir.rglob("*.log"):
        assert postgres.password not in log.read_text(errors="replace"), log


def test_a_worker_without_the_password_says_so_and_another_commits(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    real = sinkoutput.SinkOutput.commit

    async def forgetful(self: sinkoutput.SinkOutput, commit: SinkCommit) -> Committed:
        with monkeypatch.context() as forgotten:
            forgotten.setattr(sinkoutput.SinkOutput, "_secrets_of", lambda *_: {})
            with pytest.raises(TaskFailedError) as failed:
                await real(self, commit)
        told.append(failed.value.failure)
        return await real(self, commit)

    monkeypatch.setattr(sinkoutput.SinkOutput, "commit", forgetful)
    result = sink.run("spoken", "append", 0, 2, password=sink.postgres.password)
    assert result.status is JobStatus.FINISHED, result.failure
    (failure,) = told
    assert failure.may_pass
    assert failure.message.startswith(
        "table spoken: only the worker that has staged its rows knows the password, which"
    )
    assert sink.ids("spoken") == [0, 1]


def sinkoutput_text(reference: str) -> str:
    import base64

    return base64.urlsafe_b64decode(reference.partition(":")[2]).decode()
