"""Rules that have one place: who needs one asks there, and does not write his own."""

import re

import pytest

from tests.tidy.source import ROOT, python_files

ONE_PLACE = {
    "delays that double": (r"[^=] 2 ?\*\* ?|\bmin\([^)]*\b2 ?\*|random\.uniform\(", ("model/backoff.py", "core/scheduler/backoff.py")),
    "directories of the user": (r"[\[(][\'\"]XDG_|Path\.home\(|expanduser\(['\"]~", ("runtime/directories.py",)),
}  # fmt: skip


@pytest.mark.parametrize("rule", ONE_PLACE)
def test_a_rule_has_one_place(rule: str) -> None:
    pattern, places = ONE_PLACE[rule]
    wrong = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for file in python_files("src")
        if not str(file).endswith(places) and "testing/" not in str(file)
        for line in file.read_text().splitlines()
        if re.search(pattern, line)
    ]
    assert not wrong, f"{rule} are made in {', '.join(places)}"
