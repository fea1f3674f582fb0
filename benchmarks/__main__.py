"""Run the cases and print what they measured."""

import argparse
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from benchmarks import (
    cold,
    failover,
    flink,
    functions,
    graph,
    history,
    journal,
    killers,
    phases,
    rest,
    rested,
    savepoint,
    saving,
    script,
    soak,
    streaming,
    takeover,
    tasks,
    warm,
    watched,
)
from benchmarks.report import ROOT, Report, compare, save, show
from benchmarks.scale import suite as scheduling
from benchmarks.tpch import suite

CASES: dict[str, Callable[[int], Report]] = {
    "cold": cold.measure,
    "functions": functions.measure,
    "graph": graph.measure,
    "history": history.measure,
    "journal": journal.measure,
    "phases": phases.measure,
    "rest": rest.measure,
    "rested": rested.measure,
    "savepoint": savepoint.measure,
    "saving": saving.measure,
    "script": script.measure,
    "streaming": streaming.measure,
    "takeover": takeover.measure,
    "tasks": tasks.measure,
    "warm": warm.measure,
    "watched": watched.measure,
}
"""Each takes the number of rounds and measures all its sides once per round, so that noise hits all alike."""

LONG: dict[str, Callable[..., Report]] = {
    "failover": failover.measure,
    "flink": flink.measure,
    "killers": killers.measure,
    "scale": scheduling.measure,
    "soak": soak.measure,
    "tpch": suite.measure,
}
"""Run only when named; `quick` makes one round of them on small data."""

ROUNDS = 5


def main() -> int:
    """Exit code 1 when a budget was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    known = ", ".join((*CASES, *LONG))
    parser.add_argument("case", nargs="*", help=f"which of {known}; all but {', '.join(LONG)} when none is named")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--quick", action="store_true", help=f"one short round of {', '.join(LONG)}")
    parser.add_argument("--minutes", type=float, help="how long killers kill")
    parser.add_argument("--on-spark", action="store_true", help="killers: on a standalone cluster of Spark's")
    parser.add_argument("--scale", type=float, help="scale factor of tpch's tables")
    parser.add_argument("--spark-master", help="a cluster of Spark's for tpch, as spark://HOST:PORT")
    parser.add_argument("--baseline", type=Path, help="a JSON file of a former run, to compare with")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.case if name not in (*CASES, *LONG)]:
        parser.error(f"no such case: {', '.join(unknown)}")
    console = Console()
    reports = []
    for name in arguments.case or CASES:
        console.print(f"measuring {name} ...")
        if name in LONG:
            own = {"killers": ["minutes", "on_spark"], "tpch": ["scale", "spark_master"]}
            more = {option: getattr(arguments, option) for option in own.get(name, ())}
            reports.append(LONG[name](arguments.rounds, quick=arguments.quick, **more))
        else:
            reports.append(CASES[name](arguments.rounds))
    show(reports, console)
    if arguments.baseline is not None:
        compare(reports, arguments.baseline, console)
    console.print(f"as JSON: {save(reports).relative_to(ROOT)}")
    return int(not all(verdict.is_kept for report in reports for verdict in report.verdicts))


if __name__ == "__main__":
    raise SystemExit(main())
