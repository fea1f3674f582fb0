"""`python -m firesteel.testing.simulation --seeds 300`: run seeds, print the first failure."""

import sys

import click

from firesteel.testing.simulation.run import SimulationFailure, run_seed


@click.command()
@click.option("--seeds", default=300, show_default=True, help="How many seeds to run.")
@click.option("--first", default=0, show_default=True, help="The first of them.")
@click.option("--digests", is_flag=True, help="Print each run's digest.")
def main(seeds: int, first: int, digests: bool) -> None:
    """Run the control plane through simulated faults, one seed after the other."""
    for seed in range(first, first + seeds):
        try:
            digest = run_seed(seed)
        except SimulationFailure as failure:
            click.echo(str(failure), err=True)
            sys.exit(1)
        if digests:
            click.echo(f"{seed} {digest}")
    click.echo(f"{seeds} seeds held")


if __name__ == "__main__":
    main()
