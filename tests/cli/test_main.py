"""The command itself: help at once, usage errors, nothing heavy loaded."""

import subprocess
import sys

import pytest


def test_help_lists_the_commands_and_exit_codes(command) -> None:
    code, out, _ = command("--help")
    assert code == 0
    assert "3 cluster" in out
    assert [word for word in ("run", "plan", "doctor") if f"\n  {word} " not in out] == []


@pytest.mark.parametrize(
    "arguments", [("nonsense",), ("run",), ("plan", "--nonsense", "x"), ("run", "x", "--parallelism", "0")]
)
def test_bad_usage(command, arguments) -> None:
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert "Error: " in err


def test_version(command) -> None:
    code, out, _ = command("--version")
    assert (code, out.split()[0]) == (0, "firesteel")


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys; from firesteel.cli.main import exit_code; exit_code(['--help'])\n"
        "print([name for name in ('pyspark', 'rich', 'asyncio', 'numpy', 'msgspec', 'yaml') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
