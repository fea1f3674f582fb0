"""The command itself: help at once, usage errors, nothing heavy loaded."""

import os
import subprocess
import sys
from pathlib import Path

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


def test_standard_output_may_be_closed() -> None:
    program = "import os, sys; os.close(1); os.execv(sys.executable, [sys.executable, '-m', 'firesteel', '--version'])"
    done = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(("closed", "code"), [(False, 0), (True, 141)])
def test_what_is_printed_last_arrives_or_is_a_failure(closed: bool, code: int) -> None:
    """The process ends without Python's own way out, which would write what is still buffered."""
    program = "import sys; from firesteel.cli.main import main; sys.stdout.write('x' * 3); main(['--version'])"
    reader, writer = os.pipe()
    if closed:
        os.close(reader)
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, env=buffered, check=False)
    os.close(writer)
    assert done.returncode == code
    assert done.stderr == b"", "a reader that has gone wants no more"
    if not closed:
        with os.fdopen(reader, "rb") as printed:
            assert printed.read().startswith(b"xxxfiresteel ")


@pytest.mark.parametrize("arguments", [["--version"], ["list", "--help"]])
def test_a_full_disk_is_not_the_failure_of_a_job(arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "firesteel", *arguments]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        4,
        "firesteel: what there was to say could not be written: No space left on device\n",
    )


def test_a_directory_that_was_deleted_is_said(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    command = f"cd '{gone}' && rmdir '{gone}' && '{sys.executable}' -m firesteel list"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "firesteel: the current directory can't be used (No such file or directory): go to another\n"


@pytest.mark.parametrize("command", ["echo", "print"])
def test_who_prints_much_to_a_reader_that_goes_ends_as_other_tools_do(command: str) -> None:
    """Of a command's many lines one is read: by click's way to print, and by Python's."""
    says = {"echo": "click.echo('line ' * 100)", "print": "print('line ' * 100)"}[command]
    program = (
        "import click\nfrom firesteel.cli import main\n"
        f"@main.cli.command()\ndef much():\n    for _ in range(100_000):\n        {says}\n"
        "main.Commands.get_command = lambda self, ctx, name: much\nmain.main(['much'])"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("line ")
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(300) == 141


def test_a_pipe_of_its_own_that_breaks_is_told() -> None:
    """Only a reader of what is printed may go in silence."""
    program = (
        "import click, os\nfrom firesteel.cli import main\n"
        "@main.cli.command()\ndef broken():\n    raise BrokenPipeError(32, 'Broken pipe')\n"
        "main.Commands.get_command = lambda self, ctx, name: broken\nmain.main(['broken'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode in (1, 4)
    assert "Broken pipe" in done.stderr
