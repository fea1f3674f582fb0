"""What a core can be told is closed: a message that is added to a union does not type-check until somebody handles it."""

import re
import subprocess
import sys
from pathlib import Path

from tests.tidy.source import ROOT

MESSAGES = ROOT / "src/firesteel/model/messages"
CORES = {
    "ToDispatcher": ("dispatcher", ("core/dispatcher/dispatcher.py",)),
    "FromJobMaster": ("taskexecutor", ("core/taskexecutor/taskexecutor.py", "core/taskexecutor/jobconnection.py")),
    "FromResourceManager": ("taskexecutor", ("core/taskexecutor/taskexecutor.py",)),
    "ToJobMaster": ("jobmaster", ("core/jobmaster/jobmaster.py", "core/jobmaster/jobrelease.py")),
    "ToResourceManager": ("resourcemanager", ("core/resourcemanager/resourcemanager.py",)),
}
"""By union: its module, and who matches it."""


def with_one_more(module: str) -> str:
    """The module with a message `News` in each of its unions."""
    text = (MESSAGES / f"{module}.py").read_text()
    unions = [union for union, (home, _) in CORES.items() if home == module]
    for union in unions:
        text, count = re.subn(rf"^{union} = (\(\n    )?", rf"{union} = \1News | ", text, flags=re.MULTILINE)
        assert count == 1, f"{union} is no union of messages any more"
    first = min(text.index(f"{union} = ") for union in unions)
    return f"{text[:first]}class News(Message, frozen=True):\n    pass\n\n\n{text[first:]}"


def test_a_message_that_nobody_handles_does_not_type_check(tmp_path: Path) -> None:
    shadows: list[str] = []
    for module in sorted({home for home, _ in CORES.values()}):
        shadow = tmp_path / f"{module}.py"
        shadow.write_text(with_one_more(module))
        shadows += ["--shadow-file", str(MESSAGES / shadow.name), str(shadow)]
    files = sorted({f"src/firesteel/{file}" for _, matching in CORES.values() for file in matching})
    command = (sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"))
    checked = subprocess.run((*command, *shadows, *files), cwd=ROOT, capture_output=True, text=True, check=False)
    for file in files:
        assert re.search(rf'{file}:\d+: error: .*"assert_never".*"News"', checked.stdout), (file, checked.stdout)
