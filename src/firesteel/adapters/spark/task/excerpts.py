"""The lines of the user's code around the one that failed: code changes, and its package goes with the job."""

import os
from collections.abc import Sequence

import msgspec

from firesteel.adapters.spark.task.plan import RegionPlan, line_range
from firesteel.model.failures import FailureInfo

LINES_AROUND = 3
LINE_CHARS_MAX = 160
FILE_BYTES_MAX = 4 << 20


def with_excerpt(failure: FailureInfo, plan: RegionPlan, code: Sequence[str]) -> FailureInfo:
    """The failure with the lines around its location, which is in one of the job's code directories or in a function's
    file; as it is where that can't be read."""
    name, _, number = failure.location.rpartition(":")
    if not name or not number.isdecimal():
        return failure
    own = (found[0] for call in plan.callables.values() if (found := line_range(call)))
    places = [os.path.join(root, name) for root in code] + [path for path in own if os.path.basename(path) == name]
    lines = next(filter(None, map(_lines, places)), [])
    return msgspec.structs.replace(failure, excerpt=_around(lines, int(number)))


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(FILE_BYTES_MAX).splitlines()
    except OSError:
        return []


def _around(lines: Sequence[str], number: int) -> str:
    """Lines with their numbers; the one it is about is marked. Nothing where there is no such line."""
    if not 1 <= number <= len(lines):
        return ""
    shown = range(max(1, number - LINES_AROUND), min(len(lines), number + LINES_AROUND) + 1)
    width = len(str(shown[-1]))
    return "\n".join(
        f"{'>' if each == number else ' '} {each:{width}}  {lines[each - 1][:LINE_CHARS_MAX]}".rstrip()
        for each in shown
    )
