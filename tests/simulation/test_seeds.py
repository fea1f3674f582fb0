"""A seed is a run: the same one each time, in every process; and what once failed holds."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from firesteel.testing.simulation import regressions
from firesteel.testing.simulation.__main__ import main
from firesteel.testing.simulation.cores.run import run_seed
from firesteel.testing.simulation.cores.spark import FakeSpark
from firesteel.testing.simulation.faults import Faults
from firesteel.testing.simulation.levels import LEVELS
from firesteel.testing.simulation.mishaps import Mishaps
from firesteel.testing.simulation.shrink import shrink, smallest
from firesteel.testing.simulation.summary import SimulationFailure

KEPT = sorted((Path(__file__).parent / "regressions").glob("*.toml"))

DIGESTS = (sys.executable, "-m", "firesteel.testing.simulation", "run", "--seeds", "6", "--digests")


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_what_once_failed_holds(path: Path) -> None:
    """With the least that made it fail, and with all that goes wrong in its seed."""
    kept = regressions.read(path)
    LEVELS[kept.level](kept.seed, only=kept.mishaps)
    LEVELS[kept.level](kept.seed)


def test_a_seed_is_one_run() -> None:
    digests = [run_seed(seed, tell_all=True).digest for seed in range(4)]
    assert digests == [run_seed(seed, tell_all=True).digest for seed in range(4)]
    assert len(set(digests)) == 4, "a digest that tells no runs apart"


@pytest.mark.parametrize("level", LEVELS)
def test_a_seed_is_one_run_in_every_process(level: str, golden: Callable[[str, str], None]) -> None:
    """The order of hashes is another one in each, and versions of Python differ; nothing may hang on that."""
    outputs = [
        subprocess.run(
            (*DIGESTS, "--level", level),
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        for seed in ("1", "2")
    ]
    assert outputs[0].stdout == outputs[1].stdout
    assert f"6 seeds of {level} held" in outputs[0].stdout
    golden(f"digests_{level}.txt", outputs[0].stdout)


def test_a_seed_whose_disk_is_full_is_one_run() -> None:
    """Errors name files, also those that have no name of their own yet."""
    runs = (run_seed(seed, tell_all=True) for seed in range(33, 1_000))
    first = next(run for run in runs if any("/disk/.new-" in line for line in run.story))
    assert first.digest == run_seed(first.seed, tell_all=True).digest


def test_a_calm_world_needs_no_luck() -> None:
    """Jobs come, and people want something of streams; nothing else happens."""
    wishes = ("job ", "checkpoint ", "savepoint ", "ending ")
    for seed in range(5):
        assert all(name.startswith(wishes) for name in run_seed(seed, Faults()).mishaps)


@pytest.fixture
def stumbling_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark breaks its contract when an attempt is cancelled."""

    def stumble(spark: FakeSpark, *_: object) -> None:
        raise AssertionError("Spark stumbles")

    monkeypatch.setattr(FakeSpark, "_cancel", stumble)


def first_failure() -> SimulationFailure:
    for seed in range(20):
        try:
            run_seed(seed)
        except SimulationFailure as failure:
            return failure
    raise AssertionError("no seed cancels an attempt")


@pytest.mark.usefixtures("stumbling_spark")
def test_a_failure_is_told_and_shrunk_and_replayed(tmp_path: Path) -> None:
    failure = first_failure()
    assert f"seed {failure.seed} failed: AssertionError: Spark stumbles" in str(failure)
    assert "faults: Faults(" in str(failure)
    assert "CancelTasks" in str(failure), "the story is not told"
    least = shrink(failure, trials_max=60)
    assert len(least.mishaps) < len(failure.mishaps)
    path = tmp_path / "kept.toml"
    regressions.write(path, regressions.Regression("cores", least.seed, least.what, tuple(least.mishaps)))
    told = CliRunner().invoke(main, ["replay", str(least.seed), "--only", str(path), "--match", "CancelTasks"])
    assert told.exit_code == 1, told.output
    assert "failed: AssertionError: Spark stumbles" in told.output
    assert f"went wrong: {', '.join(least.mishaps)}" in told.output


def test_the_smallest_list_is_found() -> None:
    names = [str(number) for number in range(100)]
    assert smallest(names, lambda some: {"7", "64"} <= set(some)) == ["7", "64"]


def test_what_may_not_happen_is_drawn_all_the_same() -> None:
    """So that nothing else comes otherwise when one mishap is kept away."""
    free, bound = Mishaps(1), Mishaps(1, only=("rain 3",))
    for _ in range(3):
        assert free.strikes("rain")
    assert [bound.strikes("rain") for _ in range(3)] == [False, False, True]
    assert (free.struck, bound.struck) == (["rain 1", "rain 2", "rain 3"], ["rain 3"])
    assert free.stream("rain").random() == bound.stream("rain").random()
