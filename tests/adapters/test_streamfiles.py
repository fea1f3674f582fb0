"""Who is taken for an earlier attempt of a job that writes with `fs.stream_files`."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from firesteel.adapters.spark.session.context import current_attempt
from firesteel.adapters.spark.sinks.streamfiles import FilesWriter, GivenFiles
from firesteel.adapters.storage.batchclaims import Superseded


def claim(root: Path, attempt: int, instant_ms: int) -> int:
    context: Any = SimpleNamespace(
        client_directory=root,
        function=SimpleNamespace(uid="out"),
        deployment=SimpleNamespace(attempt=SimpleNamespace(job_id="a" * 32, attempt=attempt)),
        instant_ms=instant_ms,
        checkpoints={},
    )
    with current_attempt.calling(context):
        return FilesWriter.of(GivenFiles("stream_files", str(root / "out"), "parquet", (), {})).start.claim()


def test_a_later_job_of_the_same_id_is_no_earlier_attempt(tmp_path: Path) -> None:
    """Once the master has forgotten a job, its id may be given to a new one."""
    for attempt in range(3):
        claim(tmp_path, attempt, instant_ms=1)
    assert claim(tmp_path, 0, instant_ms=2) > 0
    with pytest.raises(Superseded, match="attempt 1 was taken for dead"):
        claim(tmp_path, 1, instant_ms=1)
