"""`firesteel-sim`: run seeds, replay one with its story, shrink what goes wrong in it."""

import logging
import sys
from pathlib import Path

import click

from firesteel.testing.simulation import regressions
from firesteel.testing.simulation.levels import LEVELS
from firesteel.testing.simulation.shrink import TRIALS_MAX, shrink
from firesteel.testing.simulation.summary import SimulationFailure
from firesteel.testing.simulation.sweep import Sweep, sweep

COVERAGE_FROM_SEEDS = 300
"""So many seeds should have seen every site of rare behaviour."""


@click.group()
def main() -> None:
    """The control plane in a simulated world, seed by seed."""
    logging.disable(logging.WARNING)  # of disks that fail on purpose


level_option = click.option("--level", type=click.Choice(list(LEVELS)), default="cores", show_default=True)


@main.command()
@level_option
@click.option("--seeds", default=300, show_default=True, help="How many seeds to run.")
@click.option("--first", default=0, show_default=True, help="The first of them.")
@click.option("--processes", type=click.IntRange(1), help="Processes to run them on; by default one a core.")
@click.option("--digests", is_flag=True, help="Print each run's digest.")
@click.option("--keep-going", is_flag=True, help="Do not stop at the first failure.")
def run(level: str, seeds: int, first: int, processes: int | None, **flags: bool) -> None:
    """Run seeds; print what fails."""
    result = Sweep()
    for outcome in sweep(range(first, first + seeds), processes, level=level, tell_all=flags["digests"]):
        result.add(outcome)
        if isinstance(outcome, SimulationFailure):
            click.echo(str(outcome).split("\n", 1)[0] if flags["keep_going"] else str(outcome), err=True)
            if not flags["keep_going"]:
                break
        elif flags["digests"]:
            click.echo(f"{outcome.seed} {outcome.digest}")
    if level == "cores" and seeds >= COVERAGE_FROM_SEEDS and result.never_seen():
        click.echo(f"never seen: {', '.join(result.never_seen())}", err=True)
    held = result.seeds - len(result.failures)
    click.echo(
        f"{held} seeds of {level} held, {result.events} events;"
        f" the leader changed in {result.with_leader_changes} of them, {result.leader_changes} times in all"
    )
    if result.failures:
        text = f"{len(result.failures)} of {result.seeds} seeds failed: firesteel-sim replay --level {level} SEED"
        click.echo(text, err=True)
        sys.exit(1)


@main.command()
@level_option
@click.argument("seed", type=int)
@click.option("--only", type=click.Path(path_type=Path, exists=True), help="A file of what is to go wrong.")
@click.option("--match", multiple=True, help="Show only lines with one of these.")
def replay(level: str, seed: int, only: Path | None, match: tuple[str, ...]) -> None:
    """Run SEED again and tell the whole story."""
    names = None if only is None else regressions.read(only).mishaps
    try:
        story = LEVELS[level](seed, only=names, tell_all=True).story
        failure = None
    except SimulationFailure as error:
        story, failure = tuple(error.story), error
    for line in story:
        if not match or any(word in line for word in match):
            click.echo(line)
    if failure is None:
        click.echo(f"seed {seed} held")
        return
    click.echo(f"faults: {failure.mix}\nwent wrong: {', '.join(failure.mishaps)}\nseed {seed} failed: {failure.what}")
    sys.exit(1)


@main.command("shrink")
@level_option
@click.argument("seed", type=int)
@click.argument("target", type=click.Path(path_type=Path), required=False)
@click.option("--trials", default=TRIALS_MAX, show_default=True, help="Runs that it may take.")
def shrink_seed(level: str, seed: int, target: Path | None, trials: int) -> None:
    """Find the least that has to go wrong for SEED to fail, and write it to TARGET."""
    failure = _failure_of(level, seed)
    least = shrink(failure, LEVELS[level], trials_max=trials)
    click.echo(f"{len(failure.mishaps)} things that went wrong, of which {len(least.mishaps)} are enough")
    click.echo(str(least))
    if target is not None:
        regressions.write(target, regressions.Regression(level, seed, least.what, tuple(least.mishaps)))


def _failure_of(level: str, seed: int) -> SimulationFailure:
    try:
        LEVELS[level](seed)
    except SimulationFailure as failure:
        return failure
    raise click.ClickException(f"seed {seed} holds: there is nothing to shrink")


if __name__ == "__main__":
    main()
