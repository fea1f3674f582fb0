"""`firesteel run --keep-warm` as its user has it: twice, looked at, busy, changed, killed, stopped."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.environments import environment, tarred
from tests.integration.cluster.files import HEADER
from tests.integration.cluster.test_command import wait_until
from tests.sparkjvms import quick_start_arguments

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
LIMIT_S = 300

JOB = """
import os
WORD = "first"

@F.udf("string")
def seen(number):
    return f"{WORD} {os.environ['DAY']} {number}"

@pipeline.source
def numbers(spark: SparkSession, input: str, hold: str = "") -> DataFrame:
    import time
    while hold and os.path.exists(hold):
        time.sleep(0.05)
    return spark.read.text(input)

@pipeline.result
def rows(numbers: DataFrame) -> DataFrame:
    return numbers.select(seen("value").alias("seen"))
"""


class Shell:
    """Commands in one directory, with state and temporary files of their own."""

    def __init__(self, scratch: Path) -> None:
        self.work, self.temporary, self.state = (scratch / name for name in ("work", "tmp", "state"))
        for each in (self.work, self.temporary):
            each.mkdir()
        self.environment = {
            **os.environ,
            "TMPDIR": str(self.temporary),
            "XDG_STATE_HOME": str(self.state),
            "FIRESTEEL_TEST_COMMAND": str(scratch),
            "DAY": "1",
        }
        self.environment.pop("FIRESTEEL_CLIENT_DIR", None)
        (self.work / "job.py").write_text(HEADER + JOB)
        (self.work / "input").write_text("7\n")

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "firesteel", *arguments],
            env=self.environment,
            cwd=self.work,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def command(self, *arguments: str) -> tuple[int, str, str]:
        with self.start(*arguments) as process:
            out, err = process.communicate(timeout=LIMIT_S)
        return process.returncode, out, err

    def run(self, *arguments: str, keeps: bool = True) -> tuple[list[str], str]:
        """Rows of the job, and what was said."""
        code, out, err = self.command(*self.run_arguments(*arguments, keeps=keeps))
        assert code == 0, err
        return [row["seen"] for row in json.loads(out)["returned"][0]["records"]], err

    def run_arguments(self, *arguments: str, keeps: bool = True) -> list[str]:
        """The input is named by a relative path."""
        definitions = quick_start_arguments()
        keep = ["--keep-warm", "1 h"] if keeps else []
        return ["run", *keep, "job.py", "--json", "-p", "input=input", *definitions, *arguments]

    def pid(self) -> int:
        (records,) = self.state.glob("firesteel/cluster/kept/*/processes.json")
        return int(json.loads(records.read_text())[0]["pid"])

    def left(self) -> list[str]:
        """Processes and temporary files that are left."""
        mine = self.environment["FIRESTEEL_TEST_COMMAND"]
        found = [str(each) for each in self.temporary.iterdir()]
        for process in psutil.process_iter():
            try:
                if process.environ().get("FIRESTEEL_TEST_COMMAND") == mine:
                    found.append(str(process))
            except (psutil.Error, OSError):
                continue
        return found


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    made = Shell(tmp_path)
    yield made
    made.command("cluster", "stop")


def test_a_cluster_that_was_kept(shell: Shell) -> None:
    assert shell.run()[0] == ["first 1 7"]
    kept = shell.pid()
    code, out, _ = shell.command("cluster", "status")
    assert (code, f"kept cluster for {shell.work} (process {kept}) is idle, and ends in" in out) == (0, True), out

    # The code is always the current one, also without the option; nothing is started.
    (shell.work / "job.py").write_text((HEADER + JOB).replace('"first"', '"second"'))
    (shell.work / "input").write_text("8\n")
    rows, said = shell.run("--timeout", "5 min", keeps=False)
    assert rows == ["second 1 8"]
    assert "leaving the kept cluster, which stays for 1 h without jobs" in said
    assert shell.pid() == kept

    # Who is killed takes his job along, and the next one can come.
    (shell.work / "hold").touch()
    with shell.start(*shell.run_arguments("-p", f"hold={shell.work / 'hold'}")) as held:
        wait_until(lambda: "is used" in shell.command("cluster", "status")[1], LIMIT_S)
        held.kill()
    wait_until(lambda: "is idle" in shell.command("cluster", "status")[1], LIMIT_S)
    assert shell.run()[0] == ["second 1 8"]
    assert shell.pid() == kept

    # What user code reads from its environment is what it is now, also in Spark's Python workers.
    shell.environment["DAY"] = "2"
    rows, said = shell.run()
    assert rows == ["second 2 8"]
    assert "was begun with another environment variable DAY: beginning a new one" in said
    changed = shell.pid()
    assert changed != kept
    wait_until(lambda: not psutil.pid_exists(kept), LIMIT_S)
    assert not psutil.pid_exists(kept)

    # Killed hard it leaves nothing but a record, which no one trusts.
    psutil.Process(changed).kill()
    wait_until(lambda: not shell.left(), LIMIT_S)
    assert shell.left() == []
    assert "is gone" in shell.command("cluster", "status")[1]

    # Stopped it leaves nothing at all. What becomes of a job does not matter to it.
    assert shell.command(*shell.run_arguments("-p", "unknown=1"))[0] == 2
    assert shell.pid() != changed
    assert shell.command("cluster", "stop")[:2] == (0, "stopped\n")
    assert shell.left() == []
    assert shell.command("cluster", "status")[0] == 3
    assert not list(shell.state.glob("firesteel/cluster/kept/*/*"))


SPELLS = """
@F.udf("string")
def word(number):
    try:
        import spelled
    except ImportError:
        return "none"
    return spelled.WORD

@pipeline.source
def lines(spark: SparkSession, input: str) -> DataFrame:
    return spark.read.text(input)

@pipeline.result
def rows(lines: DataFrame) -> DataFrame:
    return lines.select(word("value").alias("seen"))
"""


def test_each_run_has_its_own_environment(shell: Shell) -> None:
    """And none has what a former one had."""
    (shell.work / "job.py").write_text(HEADER + SPELLS)
    kept = []
    for name in ("one", "two"):
        archive = tarred(environment(shell.work / name, name), shell.work / f"{name}.tar.gz")
        assert shell.run("--archives", f"{archive}#env", "-pyexec", "env/bin/python")[0] == [name]
        kept.append(shell.pid())
    assert shell.run()[0] == ["none"]
    assert {*kept, shell.pid()} == {kept[0]}, "options of a job begin no other cluster"
