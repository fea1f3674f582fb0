"""Two who carry out one commit at the same time, at the moment when the first has written and not published."""

import threading
import time
from typing import Any

import pytest

from firesteel.adapters.spark.sinks import deltacommit, icebergcommit, versionedcommit
from firesteel.adapters.spark.staged.references import StagedRows, decode
from firesteel.model.tasks import SinkCommit
from tests.stack.tables.conftest import Tables

SLOW_S = 4
CALLS: tuple[tuple[str, dict[str, str]], ...] = (
    ("append", {}),
    ("overwrite", {}),
    ("overwrite", {"overwrite_partitions": "dynamic"}),
    ("upsert", {"key": "id"}),
)


@pytest.fixture(params=CALLS, ids=lambda call: "-".join((call[0], *call[1])))
def race(request: pytest.FixtureRequest, tables: Tables) -> tuple[str, SinkCommit]:
    """A table with two rows, and a commit that adds one in the one way or the other."""
    mode, options = request.param
    table = f"race_{CALLS.index(request.param)}"
    name = tables.name(table)
    tables.write("select id, id as k from range(2)", name, "error", "k", using=tables.format.name)
    (commit,) = tables.local.stage_table("select 7L as id, 7L as k", name, mode, **options)
    return table, commit


def test_the_one_who_is_late_finds_it_done(
    tables: Tables, race: tuple[str, SinkCommit], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, commit = race
    staged = decode(commit.staging, StagedRows)
    late = (_late_in_iceberg if staged.format == "iceberg" else _late_in_delta)(tables, commit, monkeypatch)
    assert not late, "it has published once more"
    versionedcommit.commit(tables.local.spark, commit.commit_id, [staged])
    kept = [] if commit.mode == "overwrite" else [(0, 0), (1, 1)]
    assert sorted(tables.rows(table).elements()) == [*kept, (7, 7)]
    assert tables.versions(table) == 2


def _late_in_iceberg(tables: Tables, commit: SinkCommit, monkeypatch: pytest.MonkeyPatch) -> bool:
    real = icebergcommit._Try._publish

    def publish(self: Any, snapshot: int) -> None:
        tables.do(tables.backend.commit(commit))
        real(self, snapshot)

    spark, staged = tables.local.spark, decode(commit.staging, StagedRows)
    with monkeypatch.context() as patched:
        patched.setattr(icebergcommit._Try, "_publish", publish)
        return icebergcommit.put(spark, commit.commit_id, staged, versionedcommit._rows(spark, [staged]))


def _late_in_delta(tables: Tables, commit: SinkCommit, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Its rows take their time: its transaction begins before that of the other, and ends after it."""
    spark, staged = tables.local.spark, decode(commit.staging, StagedRows)
    slow = f"7L + 0 * length(coalesce(reflect('java.lang.Thread', 'sleep', {SLOW_S * 1000}L), '')) as id"
    rows = spark.range(1).selectExpr(slow, "7L as k")
    answers: list[bool] = []
    writer = threading.Thread(
        target=lambda: answers.append(deltacommit.put(spark, commit.commit_id, staged, rows)), daemon=True
    )
    writer.start()
    time.sleep(SLOW_S / 4)
    tables.do(tables.backend.commit(commit))
    assert writer.is_alive(), "too slow a machine for this test"
    writer.join()
    return answers[0]
