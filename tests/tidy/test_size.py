"""Files and functions stay small enough to be read once, top down.

What is above a limit stands in `ratchet.json` and may only shrink: `pytest tests/tidy --rewrite`
writes smaller numbers, and never a larger or a new one.
"""

import json
from pathlib import Path

from tests.tidy.source import CODE_FOLDERS, functions, parsed, python_files, relative

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
RATCHET = Path(__file__).parent / "ratchet.json"


def oversized() -> dict[str, int]:
    """Lines of each file, and of each function (`file::function`), that is above its limit."""
    sizes: dict[str, int] = {}
    for file in python_files(*CODE_FOLDERS):
        lines = len(file.read_text().splitlines())
        if lines > FILE_LINES_MAX:
            sizes[relative(file)] = lines
        for name, node in functions(parsed(file)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                sizes[f"{relative(file)}::{name}"] = length
    return sizes


def test_nothing_grows_above_its_limit(rewrite: bool) -> None:
    allowed: dict[str, int] = json.loads(RATCHET.read_text())
    sizes = oversized()
    grown = {name: size for name, size in sizes.items() if size > allowed.get(name, 0)}
    assert not grown, (
        f"too long (files have at most {FILE_LINES_MAX} lines, functions {FUNCTION_LINES_MAX}): {grown}. "
        "Take out a part that has a name of its own"
    )
    if rewrite:
        RATCHET.write_text(json.dumps(sizes, indent=2, sort_keys=True) + "\n")
        allowed = sizes
    loose = {name: size for name, size in allowed.items() if sizes.get(name) != size}
    assert not loose, f"these have shrunk, so their allowance does too (run with --rewrite): {loose}"
