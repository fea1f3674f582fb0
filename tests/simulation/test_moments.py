"""The slider of the dashboard against the simulator, where there is a Node to run its fold; `make test-browser` does so for 300
seeds in the browser."""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.moments import DASHBOARD, Fold, Folded, Story, Tally, compare, stories

SEEDS = range(int(os.environ.get("FIRESTEEL_MOMENT_SEEDS", "8")))
A_CANCELED_ATTEMPT_TAKEN_UP = 22
"""In this seed a new JobMaster took cancelled attempts for failed ones."""

RUN = """import { readFileSync } from "node:fs";
Map.groupBy ??= (all, key) => all.reduce((map, each) => map.set(key(each), [...(map.get(key(each)) ?? []), each]), new Map());
const { jobAt } = await import("./moments.js");
const asked = JSON.parse(readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(asked.map(([job, data, times]) => times.map((at) => jobAt(job, data, at)))));
"""

FAILURES_TOGETHER = 34
"""In this seed one came while a restart was waited for."""

PLANTED = {
    "what has come at a moment comes after it": ("ms >= 0 && ms <= at", "ms >= 0 && ms < at"),
    "an attempt is followed at once": ("row[ROW.followed] >= 0 ||", "false ||"),
    "only the last time of a status counts": ("job.status_history ?? []", "[]"),
    "a failure has all that ever came with it": ("each.timestamp_ms <= at", "true"),
    "results are counted that count no more": ("if (isOver ||", "if ("),
}

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")


def fold_in_node(place: Path, planted: tuple[str, str] = ("", "")) -> Fold:
    """The fold as the dashboard has it, but for what is planted in it."""
    (place / "package.json").write_text('{"type": "module"}')
    (place / "run.js").write_text(RUN)
    shutil.copy(DASHBOARD / "attempts.js", place)
    text = (DASHBOARD / "moments.js").read_text(encoding="utf-8")
    assert planted[0] in text, "it is planted nowhere"
    (place / "moments.js").write_text(text.replace(*planted), encoding="utf-8")

    def fold(asked: Sequence[tuple[Any, Any, Sequence[int]]]) -> Sequence[Folded]:
        given = json.dumps(asked)
        run = subprocess.run(("node", place / "run.js"), input=given, capture_output=True, text=True, check=True)
        found: list[Folded] = json.loads(run.stdout)
        return found

    return fold


@cache
def told(seed: int) -> Sequence[Story]:
    return stories(seed)


def test_the_slider_shows_what_job_masters_said(tmp_path: Path) -> None:
    fold, tally = fold_in_node(tmp_path), Tally()
    for seed in (*SEEDS, A_CANCELED_ATTEMPT_TAKEN_UP):
        compare(tally, seed, told(seed) if seed < 8 else stories(seed), fold)
    assert not tally.differences, "\n".join(tally.differences[:5])
    assert tally.compared > 50 * len(SEEDS), tally


@pytest.mark.parametrize("name", PLANTED)
def test_a_fault_in_the_fold_is_found(name: str, tmp_path: Path) -> None:
    fold, tally = fold_in_node(tmp_path, PLANTED[name]), Tally()
    for seed in (*range(8), FAILURES_TOGETHER):
        compare(tally, seed, told(seed), fold)
    assert tally.differences, f"not found in {tally.compared} moments"
