"""Who performs which commit, and what is tried again."""

from firesteel.core.scheduler.commit import COMMIT_ATTEMPTS_MAX, COMMIT_REPEAT_MS, COMMIT_RETRY_MS, SinkCommitter
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import ResourceID
from tests.core.graphs import commit_of

W1, W2 = ResourceID("w1"), ResourceID("w2")
A, B = commit_of("a"), commit_of("b")
FULL = FailureInfo(kind=FailureKind.ENVIRONMENT, message="the disk is full")


def test_commits_go_round_the_workers_and_are_asked_for_once() -> None:
    committer = SinkCommitter()
    assert committer.due([A, B], [], 0) == {}
    assert committer.next_ms([A, B], 0) is None
    assert committer.due([A, B], [W1, W2], 0) == {W1: [A], W2: [B]}
    assert committer.due([A, B], [W1, W2], 1) == {}
    assert committer.next_ms([A, B], 1) == COMMIT_REPEAT_MS


def test_a_worker_that_is_gone_or_silent_is_replaced() -> None:
    committer = SinkCommitter()
    committer.due([A, B], [W1, W2], 0)
    assert committer.due([A, B], [W2], 1) == {W2: [A]}
    assert committer.due([A], [W2], COMMIT_REPEAT_MS) == {}
    assert committer.due([A], [W2], COMMIT_REPEAT_MS + 1) == {W2: [A]}


def test_a_failed_commit_is_tried_on_another_worker_after_a_while() -> None:
    committer = SinkCommitter()
    committer.due([A], [W1, W2], 0)
    committer.failed(A.commit_id, FULL, 5)
    assert committer.due([A], [W1, W2], 5) == {}
    assert committer.next_ms([A], 5) == 5 + COMMIT_RETRY_MS
    assert committer.due([A], [W1, W2], 5 + COMMIT_RETRY_MS) == {W2: [A]}


def test_a_commit_nobody_was_asked_for_may_fail_too() -> None:
    """The answer of a worker that a former JobMaster asked."""
    committer = SinkCommitter()
    committer.failed(A.commit_id, FULL, 0)
    assert committer.due([A], [W1, W2], 0) == {W2: [A]}


def test_the_job_fails_when_nothing_but_what_was_given_up_is_left() -> None:
    committer = SinkCommitter()
    for _ in range(COMMIT_ATTEMPTS_MAX):
        assert committer.verdict([A]) is None
        committer.failed(A.commit_id, FULL, 0)
    assert committer.verdict([A, B]) is None, "b is rolled forward first"
    assert committer.verdict([A]) == FULL
    assert committer.verdict([]) is None
    assert committer.due([A, B], [W1], 0) == {W1: [B]}
