"""Who performs which commit, and what is tried again."""

import msgspec

from firesteel.core.scheduler.commit import (
    COMMIT_ATTEMPTS_MAX,
    COMMIT_REPEAT_MS,
    VISIBLE_NAMED_MAX,
    SinkCommitter,
    told_of_visible,
)
from firesteel.core.scheduler.outages import RETRY_MAX_MS, RETRY_MS
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import AllocationID, ResourceID
from firesteel.model.reports import SlotOffer
from firesteel.model.resources import ResourceProfile
from firesteel.model.tasks import RESULT_FORMAT
from tests.core.graphs import commit_of, job

W1, W2 = ResourceID("w1"), ResourceID("w2")
A, B = commit_of("a"), commit_of("b")
GRAPH = job("a; b")
SLOT = ResourceProfile(1.0, 1_024)
BIG = ResourceProfile(labels=("big",))
FULL = FailureInfo(kind=FailureKind.ENVIRONMENT, message="the disk is full")
HELD = msgspec.structs.replace(FULL, message="job x is writing out/a/0", may_pass=True)
TAKEN = FailureInfo(kind=FailureKind.NON_RECOVERABLE, message="out/a/0 exists", stays=True)
PATIENCE_MS = 60_000


def test_commits_go_round_the_workers_and_are_asked_for_once() -> None:
    committer = SinkCommitter(GRAPH, PATIENCE_MS)
    assert committer.due([A, B], [], 0) == {}
    assert committer.next_ms([A, B], 0) is None
    assert committer.due([A, B], [W1, W2], 0) == {W1: [A], W2: [B]}
    assert committer.due([A, B], [W1, W2], 1) == {}
    assert committer.next_ms([A, B], 1) == COMMIT_REPEAT_MS


def test_a_worker_that_is_gone_or_silent_is_replaced() -> None:
    committer = SinkCommitter(GRAPH, PATIENCE_MS)
    committer.due([A, B], [W1, W2], 0)
    assert committer.due([A, B], [W2], 1) == {W2: [A]}
    assert committer.due([A], [W2], COMMIT_REPEAT_MS) == {}
    assert committer.due([A], [W2], COMMIT_REPEAT_MS + 1) == {W2: [A]}


def test_a_failed_commit_is_tried_on_another_worker_after_a_while() -> None:
    committer = SinkCommitter(GRAPH, PATIENCE_MS)
    committer.due([A], [W1, W2], 0)
    committer.failed(A.commit_id, FULL, 5)
    assert committer.due([A], [W1, W2], 5) == {}
    assert committer.next_ms([A], 5) == 5 + RETRY_MS
    assert committer.due([A], [W1, W2], 5 + RETRY_MS) == {W2: [A]}


def test_a_commit_nobody_was_asked_for_may_fail_too() -> None:
    """The answer of a worker that a former JobMaster asked."""
    committer = SinkCommitter(GRAPH, PATIENCE_MS)
    committer.failed(A.commit_id, FULL, 0)
    assert committer.due([A], [W1, W2], 0) == {W2: [A]}


def test_the_job_fails_when_nothing_but_what_was_given_up_is_left() -> None:
    committer = SinkCommitter(GRAPH, PATIENCE_MS)
    for _ in range(COMMIT_ATTEMPTS_MAX):
        assert committer.verdict([A]) is None
        committer.failed(A.commit_id, FULL, 0)
    assert committer.verdict([A, B]) is None, "b is rolled forward first"
    tried = f"; tried {COMMIT_ATTEMPTS_MAX} times in 0 s, by each worker in turn"
    assert committer.verdict([A]) == msgspec.structs.replace(FULL, message=FULL.message + tried)
    assert committer.verdict([]) is None
    assert committer.due([A, B], [W1], 0) == {W1: [B]}


def test_a_target_that_others_have_taken_is_not_tried_again() -> None:
    committer = SinkCommitter(GRAPH, PATIENCE_MS)
    committer.failed(A.commit_id, TAKEN, 0)
    assert committer.verdict([A]) == TAKEN
    assert committer.due([A], [W1, W2], 0) == {}


def test_what_may_pass_is_tried_for_longer_and_told() -> None:
    committer, now_ms, asked = SinkCommitter(GRAPH, PATIENCE_MS), 0, 0
    assert committer.waits([A, B]) == []
    while committer.verdict([A]) is None:
        due_ms = committer.next_ms([A], now_ms) or now_ms
        assert due_ms - now_ms <= RETRY_MAX_MS
        now_ms, asked = due_ms, asked + 1
        assert committer.due([A], [W1], now_ms) == {W1: [A]}
        committer.failed(A.commit_id, HELD, now_ms)
        told = ["a can't be committed yet (job x is writing out/a/0) and is tried again"]
        assert committer.waits([A, B]) == (told if committer.verdict([A]) is None else [])
    assert PATIENCE_MS <= now_ms <= PATIENCE_MS + RETRY_MAX_MS
    verdict = committer.verdict([A])
    assert verdict is not None
    seconds = now_ms // 1_000
    assert verdict.message == (
        f"job x is writing out/a/0; tried {asked} times in {seconds} s: mend that, then retry the job"
    )


def test_what_does_not_pass_is_not_tried_for_longer_because_something_else_did() -> None:
    committer = SinkCommitter(GRAPH, PATIENCE_MS)
    committer.failed(A.commit_id, HELD, 0)
    for _ in range(COMMIT_ATTEMPTS_MAX):
        assert committer.verdict([A]) is None
        committer.failed(A.commit_id, FULL, 2_005)
    verdict = committer.verdict([A])
    assert verdict is not None
    assert verdict.message == f"the disk is full; tried {COMMIT_ATTEMPTS_MAX} times in 2 s, by each worker in turn"


def test_of_what_no_worker_may_commit_is_only_said_why() -> None:
    committer, refused = SinkCommitter(GRAPH, PATIENCE_MS), msgspec.structs.replace(TAKEN, stays=False)
    for _ in range(COMMIT_ATTEMPTS_MAX):
        committer.failed(A.commit_id, refused, 0)
    assert committer.verdict([A]) == refused


def test_a_commit_goes_to_workers_with_the_labels_of_its_sink_alone() -> None:
    """Another worker's Spark may lack the catalog, the jars or the mount."""
    a, b = GRAPH.vertices
    committer = SinkCommitter(
        msgspec.structs.replace(GRAPH, vertices=(msgspec.structs.replace(a, resources=BIG.covering(SLOT)), b)),
        PATIENCE_MS,
    )
    committer.met(W1, [SlotOffer(AllocationID("s"), 0, SLOT)])
    assert committer.due([A, B], [W1], 0) == {W1: [B]}
    assert committer.requirements([A, B], [W1]) == ((BIG, 1),)
    committer.met(W2, [SlotOffer(AllocationID("t"), 0, SLOT.labelled(("big", "gpu")))])
    assert committer.requirements([A, B], [W1, W2]) == ()
    assert committer.due([A, B], [W1, W2], 1) == {W2: [A]}
    committer.failed(A.commit_id, FULL, 1)
    assert committer.due([A], [W1, W2], 1 + RETRY_MS) == {W2: [A]}, "there is no other"
    committer.lost(W2)
    assert committer.due([A], [W1], COMMIT_REPEAT_MS * 2) == {}
    assert committer.requirements([A], [W1]) == ((BIG, 1),)


def test_a_worker_is_needed_to_commit_and_none_when_there_is_nothing_to() -> None:
    committer = SinkCommitter(GRAPH, PATIENCE_MS)
    assert committer.requirements([A, B], []) == ((ResourceProfile(), 1),)
    assert committer.requirements([], []) == ()


def test_a_failed_commit_says_what_is_visible_of_the_others() -> None:
    rows = msgspec.structs.replace(A, format=RESULT_FORMAT)
    assert told_of_visible(FULL, []) == told_of_visible(FULL, [rows]) == FULL
    told = told_of_visible(FULL, [rows, A, B]).message
    assert told == (
        "the disk is full; what is committed already stays, and a retry of the job writes it again: a to out/a/0, b to out/b/0"
    )
    assert told_of_visible(FULL, [A] * (VISIBLE_NAMED_MAX + 2)).message.endswith(" and 2 more")
