"""The files of an archived job: read as they were written but for secrets, and damage is told as such."""

import contextlib
import itertools
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.adapters.history.archivefile import Damaged, archive_head, packed
from firesteel.adapters.history.keptlogs import KeptLog, KeptText, decode_logs, encode_logs
from firesteel.adapters.history.record import archived_job, decode_job, decode_summary, encode_job
from firesteel.model.checkpoints import (
    Checkpoint,
    CheckpointHistory,
    CheckpointSettings,
    CheckpointStatus,
    CheckpointsView,
)
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import ResourceID
from firesteel.model.views import ExceptionEntry, summary_of
from tests.adapters.archives import ORIGIN, archived, result, vertex, view

GOLDEN = Path(__file__).parent / "golden" / "history_v1.job"
FAILURE = FailureInfo(kind=FailureKind.USER, message="no such column", vertex="words", trace="line 3")
ONE, TWO = ResourceID("worker-1"), ResourceID("worker-2")
WHOLE = archived(
    "whole",
    owner="ada",
    parameters={"input": "/in", "db_password": "hunter2", "token": 7, "limit": 3, "exact": True},
    configuration={"spark.x": "jdbc:h://u:hunter2@db"},
    vertices=(vertex(ONE, TWO),),
    exceptions=(ExceptionEntry(timestamp_ms=3, failure=FAILURE, region=0, attempt=0, task_manager=ONE),),
)

LOGS = encode_logs([KeptText(KeptLog(task_manager=ONE, name="é_0-0.log", modified_ms=1, size_bytes=9), b"hello\n")])


def test_a_job_is_read_as_it_was_written_but_for_its_secrets() -> None:
    found = decode_job(encode_job(WHOLE))
    assert found == WHOLE
    assert decode_summary(encode_job(WHOLE)) == msgspec.structs.replace(summary_of(WHOLE.view), cluster="first")
    assert b"hunter2" not in encode_job(WHOLE)
    assert found.view.parameters == {
        "input": "/in",
        "db_password": "******",
        "token": "******",
        "limit": 3,
        "exact": True,
    }


def test_secrets_in_failures_are_not_archived() -> None:
    text = "jdbc:h://u:hunter2@db refused password=hunter2"
    failure = FailureInfo(kind=FailureKind.USER, message=text, trace=f"File x\n{text}\n")
    inner = ExceptionEntry(timestamp_ms=3, failure=failure)
    checkpoint = Checkpoint(checkpoint_id=1, status=CheckpointStatus.FAILED, triggered_ms=1, failure=text)
    history = CheckpointHistory(newest=(checkpoint,), latest_failed=checkpoint)
    failed = view(
        "failed",
        exceptions=(ExceptionEntry(timestamp_ms=2, failure=failure, concurrent=(inner,)),),
        reason=f"words: {text}",
        checkpoints=CheckpointsView(settings=CheckpointSettings(), history=history),
    )
    written = encode_job(archived_job(failed, result(failed, failure=failure), ORIGIN))
    assert b"hunter2" not in written
    assert written.count(b"jdbc:h://u:******@db refused password=******") == 10


def test_what_the_first_version_has_written_is_read(rewrite: bool) -> None:
    if rewrite and not GOLDEN.exists():
        GOLDEN.write_bytes(encode_job(WHOLE))
    assert decode_job(GOLDEN.read_bytes()) == WHOLE


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 200,
        encode_job(WHOLE)[:-1],
        encode_job(WHOLE).replace(b"archive 1 ", b"archive 2 ", 1),
        b"firesteel-archive 1 5\n\xff\xff\xff\xff\xff",
        b"firesteel-archive 1 999999999999999999999\n",
        packed({"summary": b"\x80"}),
        packed({"origin": b"\xc1"}),
        b"firesteel-archive 1 999999999\n",
        archive_head({"origin": 1 << 62}),
        archive_head({"origin": -5, "index": -5}),
        archive_head({"xx": 1}).replace(b"xx", b"\xff\xff") + b"1",
        packed({"origin": b"\xa2\xff\xff", "index": b"\x91\x81\xa2\xff\xff\x01"}),
    ],
)
def test_damage_is_told(data: bytes) -> None:
    for decode in (decode_job, decode_logs):
        with pytest.raises(Damaged):
            decode(data)


def read_or_damaged(data: bytes) -> None:
    """Anything but Damaged would end who reads."""
    for decode in (decode_job, decode_summary, decode_logs):
        with contextlib.suppress(Damaged):
            decode(data)


@pytest.mark.parametrize("whole", [encode_job(WHOLE), LOGS], ids=["job", "logs"])
def test_every_flipped_bit_gives_a_value_or_damage(whole: bytes) -> None:
    for place, bit in itertools.product(range(len(whole)), range(8)):
        read_or_damaged(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_give_a_value_or_damage(data: bytes, has_head: bool) -> None:
    read_or_damaged(b"firesteel-archive 1 %d\n%b" % (len(data), data) if has_head else data)
    for name in ("origin", "summary", "index"):
        read_or_damaged(packed({name: data}))
