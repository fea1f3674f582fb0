"""A command line that leaves the environment of the test process as it was."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from firesteel.cli.following.interrupts import SIGNALS
from firesteel.cli.main import exit_code


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("FIRESTEEL_CLIENT_DIR", str(tmp_path))
    monkeypatch.delenv("FIRESTEEL_CONF_DIR", raising=False)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    """A command that was interrupted leaves handlers behind: its process would have ended."""
    before = {each: signal.getsignal(each) for each in SIGNALS}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """`command("plan", "x.py")` -> exit code, standard output, standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = exit_code(list(arguments))
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def etl(tmp_path: Path) -> str:
    path = tmp_path / "etl_cli_x.py"
    path.write_text(
        "import firesteel as fs\n"
        "pipeline = fs.Pipeline('wordcount')\n"
        "@pipeline.source\n"
        "def lines(spark, input: str): ...\n"
        "@pipeline.sink\n"
        "def result(lines, n: int = 3): ...\n"
    )
    return str(path)
