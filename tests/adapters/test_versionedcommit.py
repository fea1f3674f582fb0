"""A commit to a versioned table that is repeated when what was staged is gone."""

from pathlib import Path

import pytest

from firesteel.adapters.spark.sinks import icebergcommit, versionedcommit, versions
from firesteel.adapters.spark.staged.references import StagedRows
from firesteel.adapters.storage.errors import CommitRefused
from firesteel.model.ids import JobVertexID
from firesteel.model.tasks import SinkCommit


def staged(tmp_path: Path, rows: int) -> StagedRows:
    files = SinkCommit(
        commit_id="c",
        vertex_id=JobVertexID("v"),
        function="result",
        format="parquet",
        mode=versions.DYNAMIC,
        target="t",
        staging=str(tmp_path / "gone"),
        files=(),
        rows=rows,
    )
    return StagedRows(
        table="c.d.t",
        format="iceberg",
        is_new=False,
        schema="{}",
        partition_columns=(),
        options={},
        settings={},
        files=files,
    )


def test_partitions_that_no_row_replaces_were_replaced_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a commit leaves no snapshot: its worker died before it could say that it was done."""

    def refuse(*given: object) -> bool:
        raise CommitRefused("the rows are gone")

    monkeypatch.setattr(icebergcommit, "put", refuse)
    assert versionedcommit._put(None, "c", [staged(tmp_path, 0), staged(tmp_path, 0)])
    for rows in (1, -1):
        with pytest.raises(CommitRefused):
            versionedcommit._put(None, "c", [staged(tmp_path, 0), staged(tmp_path, rows)])
