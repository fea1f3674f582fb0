"""Flink beside us: its own session cluster, driven by a script that `FIRESTEEL_FLINK_SH` names.

The script knows `start SLOTS`, `big` and `stop`. `big` submits jobs of 2 × P subtasks, all to all, and prints
`p=P TYPE submit->RUNNING N ms` for each.
"""

import re
import subprocess

from benchmarks.report import Series

SLOTS = 256
LIMIT_S = 900

_LINE = re.compile(r"p=(\d+) (\w+) submit->RUNNING (\d+) ms")


def measure(script: str) -> tuple[Series, ...]:
    """Milliseconds from submission to RUNNING, by size and kind of exchange. Wall time: it is another program's."""
    _do(script, "start", str(SLOTS))
    try:
        text = _do(script, "big")
    finally:
        _do(script, "stop")
    found: dict[tuple[int, str], list[float]] = {}
    for parallelism, kind, value in _LINE.findall(text):
        found.setdefault((int(parallelism), kind.lower()), []).append(float(value))
    return tuple(
        Series(f"Flink: {kind} {p:,} + {p:,}: submitted to RUNNING, wall", "ms", tuple(values))
        for (p, kind), values in found.items()
    )


def _do(script: str, *words: str) -> str:
    ended = subprocess.run([script, *words], capture_output=True, text=True, timeout=LIMIT_S, check=True)
    return ended.stdout
