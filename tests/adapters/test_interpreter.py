"""A job's own interpreter, as a task process takes it up: what it says of itself, and what is refused."""

import subprocess
import sys
from pathlib import Path

import pytest

from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.adapters.spark.session import interpreter
from firesteel.adapters.spark.session.interpreter import use_interpreter
from tests.environments import environment

NAME = "env/bin/python"


def refusal(path: Path) -> str:
    with pytest.raises(PipelineRefused) as raised:
        use_interpreter(str(path), NAME)
    return str(raised.value)


def program(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_what_only_it_has_can_be_imported_behind_what_the_worker_has(tmp_path: Path) -> None:
    """In a process of its own: modules stay loaded."""
    python = environment(tmp_path / "env", "one") / "bin" / "python"
    code = f"""
import sys
before = list(sys.path)
from firesteel.adapters.spark.session.interpreter import use_interpreter
use_interpreter({str(python)!r}, {NAME!r})
import spelled
assert (spelled.WORD, spelled.escaped("<")) == ("one", "&lt;")
assert sys.path[:len(before)] == before
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_link_that_leads_nowhere_says_where(tmp_path: Path) -> None:
    link = tmp_path / "python"
    link.symlink_to(tmp_path / "python3.99")
    assert refusal(link).startswith(
        f"python.executable {NAME}: it leads to {tmp_path}/python3.99, which this worker does not have: pack"
    )
    assert "its archive has no such file" in refusal(tmp_path / "none")


def test_what_can_not_be_run_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = f"python.executable {NAME}: it can't be run on this worker: "
    (tmp_path / "text").write_text("text")
    assert refusal(tmp_path / "text") == f"{told}Permission denied"
    assert refusal(program(tmp_path / "junk", "\x7fELF")) == f"{told}Exec format error"
    loud = program(tmp_path / "loud", "#!/bin/sh\necho 'no such library: libpython' >&2\nexit 127\n")
    assert refusal(loud) == f"{told}no such library: libpython"
    assert refusal(program(tmp_path / "mute", "#!/bin/sh\nexit 3\n")) == f"{told}it ended with code 3"
    assert refusal(program(tmp_path / "other", "#!/bin/sh\necho hello\n")).startswith(f"{told}JSON is malformed")
    monkeypatch.setattr(interpreter, "ANSWER_SECONDS", 0.1)
    assert refusal(program(tmp_path / "slow", "#!/bin/sh\nexec sleep 60\n")) == f"{told}no answer within 0.1 s"


def test_another_version_is_refused_naming_both(tmp_path: Path) -> None:
    answer = '{"version": "3.9", "packages": [], "missing": []}'
    other = program(tmp_path / "python", f"#!/bin/sh\necho '{answer}'\n")
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert refusal(other) == (
        f"python.executable {NAME} is Python 3.9, and this worker runs Python {here}: functions travel pickled, so pack an"
        " environment of that version"
    )


def test_an_environment_without_what_spark_needs_is_refused(tmp_path: Path) -> None:
    python = environment(tmp_path / "env", "one", has_packages=False) / "bin" / "python"
    assert refusal(python) == (
        f"python.executable {NAME} has no pyarrow and no pandas, without which Spark runs no Python function: install"
        " pyarrow pandas in that environment, and pack it again"
    )
