"""Whether a query may go on from a savepoint, by what Spark explains of it."""

from pathlib import Path
from typing import Any

import pytest

from firesteel.adapters.spark import internals
from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.adapters.spark.streams.continuity import Continuity
from firesteel.adapters.spark.streams.inheritance import keep
from firesteel.adapters.spark.streams.notes import fingerprint_of
from firesteel.adapters.spark.streams.plans.fingerprints import fingerprint
from firesteel.adapters.spark.streams.snapshots.manifest import SavepointHeader
from firesteel.adapters.spark.streams.snapshots.savepoints import write_savepoint
from tests.adapters.snapshots.checkpoints import FakeCheckpoint


def deduplicated(key: str) -> str:
    return f"""== Physical Plan ==
StreamingDeduplicate [{key}], state info [ checkpoint = <unknown>, opId = 0], 0, 0
+- StreamingRelation FileSource[/in], [k#1, v#2]
"""


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What Spark explains, one after the other; the last one from then on."""
    explained: list[str] = []

    def explain(writer: Any) -> str:
        return explained.pop(0) if len(explained) > 1 else explained[0]

    monkeypatch.setattr(internals, "streamed_plan", explain)
    monkeypatch.setattr(internals, "output_mode", lambda writer: "append")
    monkeypatch.setattr(internals, "time_zone", lambda writer: "UTC")
    monkeypatch.setattr(internals, "streams_read", lambda writer: [])
    return explained


def saved(tmp_path: Path, batches: int, plan: str) -> str:
    checkpoint = FakeCheckpoint(tmp_path / "checkpoint").commit(batches)
    header = SavepointHeader(
        job_id="0" * 32,
        job_name="old",
        spark_version="4.3.0",
        created_ms=0,
        fingerprints={"result": fingerprint(plan, "append")},
    )
    write_savepoint(str(tmp_path / "savepoint"), {"result": str(checkpoint.root)}, header)
    return str(tmp_path / "savepoint")


def check(tmp_path: Path, savepoint: str) -> str | None:
    (tmp_path / "result/0").mkdir(parents=True)
    if savepoint:
        keep(tmp_path / "result", savepoint)
    Continuity(savepoint).check("result", str(tmp_path / "result/0"), None)
    return fingerprint_of(tmp_path / "result")


def test_another_plan_is_refused(tmp_path: Path, plans: list[str]) -> None:
    savepoint = saved(tmp_path, 2, deduplicated("k#1"))
    plans.append(deduplicated("v#2"))
    with pytest.raises(PipelineRefused, match="deduplication keys of the deduplication: it was k, and is v"):
        check(tmp_path, savepoint)
    assert fingerprint_of(tmp_path / "result") is None


def test_a_query_that_was_saved_at_its_beginning_has_no_state_to_fit(tmp_path: Path, plans: list[str]) -> None:
    savepoint = saved(tmp_path, 0, deduplicated("k#1"))
    plans.append(deduplicated("v#2"))
    assert check(tmp_path, savepoint) == fingerprint(plans[0], "append"), "of the plan that goes on"


def test_what_differs_from_one_moment_to_the_next_is_not_noted(tmp_path: Path, plans: list[str]) -> None:
    plans += [deduplicated(f"k#1, 2026-11-23 20:00:00.{micros}") for micros in (1, 2)]
    noted = check(tmp_path, "")
    assert noted == fingerprint(plans[0], "append").replace('"deduplication keys":["k","2026-11-23 20:00:00.2"]', ""), (
        "the operator is known, its keys are not"
    )
