"""What a core can be told is closed: a message that is added to a union does not type-check until somebody handles it."""

import re
import subprocess
import sys
from pathlib import Path

from tests.tidy.source import ROOT

MESSAGES = ROOT / "src/firesteel/model/messages.py"
CORES = {
    "ToDispatcher": ("core/dispatcher/dispatcher.py",),
    "FromJobMaster": ("core/taskexecutor.py", "core/jobconnection.py"),
    "FromResourceManager": ("core/taskexecutor.py",),
    "ToJobMaster": ("core/jobmaster.py", "core/jobrelease.py"),
    "ToResourceManager": ("core/resourcemanager.py",),
}


def with_one_more(text: str) -> str:
    """The module of messages with a message `News` in each of the unions."""
    for union in CORES:
        text, count = re.subn(rf"^{union} = (\(\n    )?", rf"{union} = \1News | ", text, flags=re.MULTILINE)
        assert count == 1, f"{union} is no union of messages any more"
    first = text.index("ToJobMaster = ")
    return f"{text[:first]}class News(Message, frozen=True):\n    pass\n\n\n{text[first:]}"


def test_a_message_that_nobody_handles_does_not_type_check(tmp_path: Path) -> None:
    shadow = tmp_path / "messages.py"
    shadow.write_text(with_one_more(MESSAGES.read_text()))
    files = sorted({f"src/firesteel/{file}" for files in CORES.values() for file in files})
    command = (sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"))
    shadowed = (*command, "--shadow-file", str(MESSAGES), str(shadow), *files)
    checked = subprocess.run(shadowed, cwd=ROOT, capture_output=True, text=True, check=False)
    for file in files:
        assert re.search(rf'{file}:\d+: error: .*"assert_never".*"News"', checked.stdout), (file, checked.stdout)
