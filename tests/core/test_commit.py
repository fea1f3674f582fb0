"""Who performs which commit, and what is tried again; restart strategies."""

import pytest

from firesteel.core.scheduler.backoff import FixedDelay, NoRestart, RestartStrategy, restart_strategy
from firesteel.core.scheduler.commit import COMMIT_ATTEMPTS_MAX, COMMIT_REPEAT_MS, COMMIT_RETRY_MS, SinkCommitter
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import ResourceID
from firesteel.model.options import Configuration
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


@pytest.mark.parametrize(
    ("cluster", "job", "expected"),
    [
        ({"restart-strategy.type": "none"}, {}, NoRestart()),
        ({"restart-strategy.type": "none"}, {"restart-strategy.type": "fixed-delay"}, FixedDelay(3, 1_000)),
        (
            {"restart-strategy.fixed-delay.attempts": "5"},
            {"restart-strategy.fixed-delay.delay": "2 s", "spark.sql.shuffle.partitions": "4"},
            FixedDelay(5, 2_000),
        ),
    ],
)
def test_a_jobs_own_strategy_comes_before_the_clusters(
    cluster: dict[str, str], job: dict[str, str], expected: RestartStrategy
) -> None:
    defaults = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
        "restart-strategy.fixed-delay.delay": "1 s",
    }
    assert restart_strategy(Configuration(defaults | cluster), job) == expected


def test_strategies_count_and_say_why() -> None:
    assert NoRestart().delay_ms(0) is None
    assert NoRestart().describe() == "restart-strategy.type is none"
    assert [FixedDelay(2, 500).delay_ms(restarts) for restarts in range(4)] == [500, 500, None, None]
