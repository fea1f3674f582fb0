"""Run the cases and print what they measured."""

import argparse
from collections.abc import Callable

from rich.console import Console

from benchmarks import cold, graph, tasks, warm
from benchmarks.report import ROOT, Report, save, show

CASES: dict[str, Callable[[int], Report]] = {
    "cold": cold.measure,
    "graph": graph.measure,
    "tasks": tasks.measure,
    "warm": warm.measure,
}
"""Each takes the number of rounds and measures all its sides once per round, so that noise hits all alike."""

ROUNDS = 5


def main() -> int:
    """Exit code 1 when a budget was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("case", nargs="*", help=f"which of {', '.join(CASES)}; all when none is named")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.case if name not in CASES]:
        parser.error(f"no such case: {', '.join(unknown)}")
    console = Console()
    reports = []
    for name in arguments.case or CASES:
        console.print(f"measuring {name} ...")
        reports.append(CASES[name](arguments.rounds))
    show(reports, console)
    console.print(f"as JSON: {save(reports).relative_to(ROOT)}")
    return int(not all(verdict.is_kept for report in reports for verdict in report.verdicts))


if __name__ == "__main__":
    raise SystemExit(main())
