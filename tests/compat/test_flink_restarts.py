"""Restart strategies beside Flink's own classes: names, options, defaults, and every delay."""

import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from firesteel.core.scheduler.backoff import (
    BackoffState,
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    RestartStrategy,
    restart_strategy,
)
from firesteel.model.options import OPTIONS, Configuration, ConfigurationError
from tests.compat.conftest import FLINK_JARS

SEQUENCES = 1_000
JITTERED = 300
FAILURES_MAX = 60
PROGRAM = Path(__file__).with_name("Backoffs.java")
CLASS = "org.apache.flink.runtime.executiongraph.failover.Backoffs"
NAMES: tuple[str, ...] = (
    "none",
    "off",
    "disable",
    "fixed-delay",
    "fixeddelay",
    "failure-rate",
    "failurerate",
    "exponential-delay",
)
NAMES += ("exponentialdelay", "Fixed-Delay", "OFF", "fixed_delay", "never")
UNITS = {"PT1S": "1 s", "PT1M": "1 min", "PT1H": "1 h"}

Flink = Callable[..., list[str]]


@pytest.fixture(scope="module")
def flink(tmp_path_factory: pytest.TempPathFactory) -> Flink:
    """Calls the Java program: its lines of output."""
    classes = tmp_path_factory.mktemp("classes")
    subprocess.run(["javac", "-cp", f"{FLINK_JARS}/*", "-d", classes, PROGRAM], check=True)

    def call(*arguments: str, given: str = "") -> list[str]:
        command = ["java", "-cp", f"{classes}:{FLINK_JARS}/*", CLASS, *arguments]
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    return call


def test_the_options_are_flinks(flink: Flink) -> None:
    for line in flink("options"):
        key, default, *former = line.split()
        option = OPTIONS[key]
        expected = option.parse(UNITS.get(default, default)) if default != "-" else "none"
        assert option.default == expected, key
        assert [option.deprecated_key] == (former or [""]), key


def test_the_names_are_flinks(flink: Flink) -> None:
    for name, made in zip(NAMES, flink("names", *NAMES), strict=True):
        try:
            ours = type(restart_strategy(Configuration({"restart-strategy.type": name}), {})).__name__
        except ConfigurationError:
            ours = "refused"
        assert made in (ours, f"{ours}Restart"), name


def test_every_delay_is_flinks(flink: Flink) -> None:
    """Jitter is random there: without."""
    chance = random.Random(11)
    cases = [drawn(chance) for _ in range(SEQUENCES)]
    theirs = flink("answers", given="".join(line(*case) for case in cases))
    given_up = merged = 0
    for (strategy, times_ms), answers in zip(cases, theirs, strict=True):
        ours = answered(strategy, times_ms)
        assert ours == answers.split(), (strategy, times_ms)
        given_up += sum(answer.endswith("-") for answer in ours)
        merged += sum(answer.startswith("0") for answer in ours)
    assert min(given_up, merged) > SEQUENCES, "the sequences try all that there is"


def test_jitter_stays_where_flinks_does(flink: Flink) -> None:
    """Both within the same bounds, and both all over them."""
    spread: dict[bool, list[float]] = {True: [], False: []}
    chance = random.Random(12)
    cases = [
        (
            ExponentialDelay(chance.randint(1_000, 2_000), 1 << 40, 2.0, 1 << 50, 0.25, 100, str(number)),
            [1, 10_000, 50_000],
        )
        for number in range(JITTERED)
    ]
    theirs = flink("answers", given="".join(line(*case) for case in cases))
    for (strategy, times_ms), answers in zip(cases, theirs, strict=True):
        for is_ours, found in ((True, answered(strategy, times_ms)), (False, answers.split())):
            for number, answer in enumerate(found[1:], start=1):
                middle_ms = strategy.initial_ms * 2**number
                share = int(answer.removeprefix("1/")) / middle_ms - 1
                assert abs(share) <= 0.25, (is_ours, strategy, answer)
                spread[is_ours].append(share)
    for shares in spread.values():
        assert min(shares) < -0.24 < 0.24 < max(shares)
        assert abs(sum(shares) / len(shares)) < 0.05


def drawn(chance: random.Random) -> tuple[RestartStrategy, list[int]]:
    """A strategy, and when failures come: at once, while a restart waits, just after it, long after it."""
    initial_ms = chance.choice((1, 100, 1_000))
    strategy: RestartStrategy = chance.choice(
        (
            FixedDelay(chance.randint(0, 20), chance.choice((0, 500))),
            FailureRate(chance.randint(1, 8), chance.choice((1, 1_000, 60_000)), chance.choice((0, 500))),
            ExponentialDelay(
                initial_ms,
                initial_ms * chance.choice((1, 10, 600)),
                chance.choice((1.0001, 1.1, 1.5, 2.0, 3.7)),
                chance.choice((1, 5_000, 3_600_000)),
                0.0,
                chance.choice((1, 5, 30, 2_147_483_647)),
            ),
        )
    )
    now_ms, times_ms, state = chance.randint(0, 1 << 41), [], BackoffState()
    for _ in range(chance.randint(1, FAILURES_MAX)):
        now_ms += chance.choice((0, 1, chance.randint(0, 500), chance.randint(0, 5_000), chance.randint(0, 90_000)))
        if isinstance(strategy, ExponentialDelay) and chance.random() < 0.5:  # around where it turns
            limit_ms = chance.choice((0, strategy.reset_after_ms))
            now_ms = max(now_ms, (state.due_ms or now_ms) + limit_ms + chance.randint(-1, 1))
        times_ms.append(now_ms)
        state = strategy.notify_failure(state, now_ms).state
    return strategy, times_ms


def answered(strategy: RestartStrategy, times_ms: list[int]) -> list[str]:
    """What ours says, in the words of the Java program."""
    state, told = BackoffState(), []
    for now_ms in times_ms:
        answer = strategy.notify_failure(state, now_ms)
        told.append(f"{int(answer.is_new_attempt)}/{'-' if answer.delay_ms is None else answer.delay_ms}")
        state = answer.state
    return told


def line(strategy: RestartStrategy, times_ms: list[int]) -> str:
    match strategy:
        case FixedDelay():
            words = ["fixed-delay", strategy.attempts, strategy.wait_ms]
        case FailureRate():
            words = ["failure-rate", strategy.failures, strategy.interval_ms, strategy.wait_ms]
        case ExponentialDelay():
            words = ["exponential-delay", strategy.initial_ms, strategy.max_ms, strategy.multiplier]
            words += [strategy.reset_after_ms, strategy.jitter, strategy.attempts]
        case _:
            raise AssertionError(strategy)
    return f"{' '.join(map(str, words))} ; {' '.join(map(str, times_ms))}\n"
