"""Restart strategies: what they answer to a row of failures, and how they are configured."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.core.scheduler.backoff import (
    Backoff,
    BackoffState,
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartStrategy,
    restart_strategy,
)
from firesteel.model.options import Configuration, ConfigurationError

DEFAULT = ExponentialDelay(1_000, 60_000, 1.5, 3_600_000, 0.0, 2_147_483_647)


def answers(strategy: RestartStrategy, *times_ms: int) -> list[Backoff]:
    """To failures at these times."""
    state, told = BackoffState(), []
    for now_ms in times_ms:
        told.append(strategy.notify_failure(state, now_ms))
        state = told[-1].state
    return told


def delays(strategy: RestartStrategy, *times_ms: int) -> list[int | None]:
    return [answer.delay_ms for answer in answers(strategy, *times_ms)]


def in_a_row(strategy: RestartStrategy, count: int) -> list[int | None]:
    """Each failure comes a moment after the restart of the one before."""
    state, now_ms, told = BackoffState(), 0, []
    for _ in range(count):
        answer = strategy.notify_failure(state, now_ms)
        told.append(answer.delay_ms)
        state, now_ms = answer.state, now_ms + (answer.delay_ms or 0) + 1
    return told


def test_none_and_fixed_delay() -> None:
    assert delays(NoRestart(), 0) == [None]
    assert delays(FixedDelay(2, 500), 0, 0, 9_000, 9_001) == [500, 500, None, None]
    assert delays(FixedDelay(0, 500), 0) == [None]


def test_a_failure_rate_slides() -> None:
    strategy = FailureRate(2, 1_000, 50)
    assert delays(strategy, 0, 900, 1_000) == [50, 50, None], "three within a second"
    assert delays(strategy, 0, 900, 1_001, 1_901, 2_900) == [50, 50, 50, 50, 50]
    assert answers(strategy, 0, 1, 2, 3)[-1].state.failures_ms == (1, 2, 3)


def test_an_exponential_delay_grows_to_its_limit() -> None:
    assert in_a_row(DEFAULT, 12) == [
        *(1_000, 1_500, 2_250, 3_375, 5_062, 7_593, 11_390, 17_085, 25_628, 38_443, 57_665),
        60_000,
    ]


def test_failures_that_come_while_a_restart_waits_are_answered_by_it() -> None:
    first, second, third, fourth = answers(DEFAULT, 0, 400, 1_000, 1_001)
    assert (first.delay_ms, first.is_new_attempt) == (1_000, True)
    assert (second.delay_ms, second.is_new_attempt, second.state) == (600, False, first.state)
    assert (third.delay_ms, third.is_new_attempt) == (0, False)
    assert (fourth.delay_ms, fourth.is_new_attempt) == (1_500, True)


def test_the_backoff_begins_anew_after_a_quiet_time() -> None:
    assert delays(DEFAULT, 0, 3_601_000) == [1_000, 1_000]
    assert delays(DEFAULT, 0, 3_600_999) == [1_000, 1_500], "it is the restart that the time is counted from"


def test_attempts_before_the_backoff_is_reset_are_limited_if_you_like() -> None:
    strategy = ExponentialDelay(10, 20, 2.0, 1_000, 0.0, attempts=2)
    assert in_a_row(strategy, 3) == [10, 20, None]
    assert delays(strategy, 0, 11, 2_000, 2_011, 2_032) == [10, 20, 10, 20, None]


@pytest.mark.parametrize("jitter", [0.0, 0.5])
@pytest.mark.parametrize("attempts", [200, 1_000_000])
def test_a_backoff_past_all_numbers_is_the_longest(attempts: int, jitter: float) -> None:
    strategy = ExponentialDelay(1_000, 60_000, 1.5, 3_600_000, jitter, 2_147_483_647)
    assert strategy.notify_failure(BackoffState(attempts=attempts, due_ms=0), 1).delay_ms == 60_000


@given(st.text(max_size=8), st.integers(1, 8), st.integers(0, 1 << 45), st.floats(0, 1))
def test_jitter_stays_within_its_share(seed: str, attempts: int, now_ms: int, jitter: float) -> None:
    strategy = ExponentialDelay(1_000, 10_000, 2.0, 1 << 50, jitter, 100, seed)
    answer = strategy.notify_failure(BackoffState(attempts=attempts, due_ms=now_ms - 1), now_ms)
    assert answer == strategy.notify_failure(BackoffState(attempts=attempts, due_ms=now_ms - 1), now_ms)
    backoff_ms = 1_000 * 2**attempts
    assert answer.delay_ms is not None
    least, most = backoff_ms - int(backoff_ms * jitter), backoff_ms + int(backoff_ms * jitter)
    assert max(1_000, min(least, 10_000)) <= answer.delay_ms <= min(most, 10_000)


def test_jitter_differs_from_job_to_job_and_uses_its_share() -> None:
    def of(seed: str) -> int:
        strategy = ExponentialDelay(10_000, 60_000, 2.0, 1 << 50, 0.1, 100, seed)
        delay_ms = strategy.notify_failure(BackoffState(attempts=1, due_ms=0), 1).delay_ms
        assert delay_ms is not None
        return delay_ms

    found = [of(str(number)) for number in range(500)]
    assert len(set(found)) > 400
    assert 18_000 <= min(found) < 18_200
    assert 21_800 < max(found) <= 22_000


def test_why_they_let_a_job_fail() -> None:
    assert NoRestart().describe() == ""
    assert FixedDelay(2, 0).describe() == "all 2 restarts of restart-strategy.fixed-delay.attempts are used up"
    rate = "more than 2 failures within 60 s (restart-strategy.failure-rate.max-failures-per-interval)"
    assert FailureRate(2, 60_000, 0).describe() == rate
    key = "restart-strategy.exponential-delay.attempts-before-reset-backoff"
    assert ExponentialDelay(1, 1, 2.0, 1, 0.0, 7).describe() == f"all 7 restarts of {key} are used up"


@pytest.mark.parametrize(
    ("cluster", "job", "expected"),
    [
        ({"restart-strategy.type": "none"}, {}, NoRestart()),
        ({}, {"restart-strategy.type": "off"}, NoRestart()),
        ({"restart-strategy.type": "none"}, {"restart-strategy.type": "fixed-delay"}, FixedDelay(3, 1_000)),
        (
            {"restart-strategy.fixed-delay.attempts": "5"},
            {"restart-strategy.fixed-delay.delay": "2 s", "spark.sql.shuffle.partitions": "4", "of-later": "1"},
            FixedDelay(5, 2_000),
        ),
        ({}, {"restart-strategy": "FailureRate"}, FailureRate(1, 60_000, 1_000)),
        (
            {"restart-strategy.exponential-delay.max-backoff": "2 min"},
            {"restart-strategy.type": "exponentialdelay"},
            ExponentialDelay(1_000, 120_000, 1.5, 3_600_000, 0.1, 2_147_483_647, "seed"),
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
    assert restart_strategy(Configuration(defaults | cluster), job, "seed") == expected


def test_a_stream_is_restarted_unless_somebody_says_otherwise() -> None:
    nothing, off = Configuration(), {"restart-strategy.type": "none"}
    assert isinstance(restart_strategy(nothing, {}, is_stream=True), ExponentialDelay)
    assert restart_strategy(nothing, off, is_stream=True) == NoRestart()
    assert restart_strategy(Configuration(off), {}, is_stream=True) == NoRestart()
    assert restart_strategy(nothing, {}) == NoRestart()


@pytest.mark.parametrize(
    ("kind", "option", "value", "problem"),
    [
        ("fixed-delay", "attempts", "-1", "at least 0"),
        ("failure-rate", "max-failures-per-interval", "0", "at least 1"),
        ("failure-rate", "failure-rate-interval", "0 s", "more than 0"),
        ("exponential-delay", "initial-backoff", "0 s", "at least 1 ms"),
        ("exponential-delay", "max-backoff", "10 ms", "at least restart-strategy.exponential-delay.initial-backoff"),
        ("exponential-delay", "backoff-multiplier", "1", "more than 1"),
        ("exponential-delay", "backoff-multiplier", "nan", "more than 1"),
        ("exponential-delay", "reset-backoff-threshold", "0", "at least 1 ms"),
        ("exponential-delay", "jitter-factor", "1.5", "from 0 to 1"),
        ("exponential-delay", "attempts-before-reset-backoff", "0", "at least 1"),
    ],
)
def test_what_flink_refuses_is_refused(kind: str, option: str, value: str, problem: str) -> None:
    key = f"restart-strategy.{kind}.{option}"
    given = Configuration({"restart-strategy.type": kind, key: value})
    with pytest.raises(ConfigurationError, match=f"{key}: it has to be {problem}"):
        restart_strategy(given, {})
