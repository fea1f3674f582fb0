"""What a benchmark measured: values, their median and spread, verdicts, a table and a JSON file."""

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"


@dataclass(frozen=True)
class Series:
    """One thing measured several times, all values in one unit."""

    name: str
    unit: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)


@dataclass(frozen=True)
class Verdict:
    """A figure drawn from series of one run, and the budget it must keep (an upper or a lower bound)."""

    name: str
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def is_kept(self) -> bool:
        """Whether the budget holds; true where none is set."""
        return (self.at_most is None or self.value <= self.at_most) and (
            self.at_least is None or self.value >= self.at_least
        )

    @property
    def budget(self) -> str:
        """The bound as text, or nothing."""
        if self.at_most is not None:
            return f"≤ {number(self.at_most)}"
        return f"≥ {number(self.at_least)}" if self.at_least is not None else ""


@dataclass(frozen=True)
class Report:
    """All of one case."""

    case: str
    series: tuple[Series, ...]
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = field(default=())


def turned(sides: list[str], by: int) -> list[str]:
    """The sides in an order that turns from round to round, so that none is always the first."""
    by %= len(sides)
    return sides[by:] + sides[:by]


def number(value: float) -> str:
    """Three significant digits, without an exponent."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def show(reports: Sequence[Report], console: Console) -> None:
    """Print the tables."""
    measured = Table("case", "measured", "median", "min", "max", "n", "unit", title="Measured")
    verdicts = Table("case", "figure", "value", "unit", "budget", "", title="Against the budgets")
    for report in reports:
        for series in report.series:
            spread = (series.median, min(series.values), max(series.values))
            measured.add_row(report.case, series.name, *map(number, spread), str(len(series.values)), series.unit)
        for verdict in report.verdicts:
            mark = "" if not verdict.budget else "kept" if verdict.is_kept else "MISSED"
            verdicts.add_row(report.case, verdict.name, number(verdict.value), verdict.unit, verdict.budget, mark)
    console.print(measured)
    console.print(verdicts)
    for report in reports:
        for note in report.notes:
            console.print(f"{report.case}: {note}")


def compare(reports: Sequence[Report], baseline: Path, console: Console) -> None:
    """Print how the medians stand to those of a file that `save` has written; only one machine's compare."""
    before = {
        (report["case"], series["name"]): statistics.median(series["values"])
        for report in json.loads(baseline.read_text())["reports"]
        for series in report["series"]
    }
    table = Table("case", "measured", "baseline", "now", "unit", "ratio", title=f"Against {baseline.name}")
    for report in reports:
        for series in report.series:
            known = before.get((report.case, series.name))
            if known:
                figures = (number(known), number(series.median), series.unit, number(series.median / known))
                table.add_row(report.case, series.name, *figures)
    console.print(table)


def save(reports: Sequence[Report]) -> Path:
    """Write everything as JSON, named by the moment; returns the file."""
    moment = datetime.now(UTC)
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{moment:%Y%m%d-%H%M%S}.json"
    content = {"when": moment.isoformat(), "machine": machine(), "reports": [asdict(report) for report in reports]}
    file.write_text(json.dumps(content, indent=2) + "\n")
    return file


def machine() -> dict[str, str | int | None]:
    """What the figures were taken on."""
    revision = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return {
        "cores": os.cpu_count(),
        "processor": platform.machine(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "commit": revision.stdout.strip(),
    }
