"""`firesteel plan`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_plan_of_the_join(command, golden) -> None:
    code, out, err = command("plan", str(EXAMPLES / "join.py"), "--param", "minimum=1.5")
    assert (code, err) == (0, "")
    golden("plan_join.txt", out)


def test_json(command) -> None:
    code, out, _ = command("plan", str(EXAMPLES / "wordcount.py"), "--json")
    shown = json.loads(out)
    assert code == 0
    assert [vertex["name"] for vertex in shown["vertices"]] == ["lines -> words -> counts -> result"]
    assert shown["regions"] == [[shown["vertices"][0]["id"]]]


def test_wide_noops(command, tmp_path: Path) -> None:
    file = tmp_path / "wide_x.py"
    file.write_text(
        "import firesteel as fs\np = fs.Pipeline('wide')\np.add(fs.noop('a', parallelism=20000))\n"
        "p.add(fs.noop('b', inputs={'a': fs.hash_by('k')}, parallelism=20000, cpu=1, memory='1g', retries=1, timeout=2))\n"
    )
    _, out, _ = command("plan", str(file))
    assert "40,000 regions" in out
    assert "b  (parallelism 20000, 1 cores and 1024 MiB, 2 attempts at the most, at the most 2 s an attempt)" in out
    assert "<- a  hash by k, blocking (stored result)" in out
    _, out, _ = command("plan", str(file), "--set", "a.parallelism=7", "--set", "b.retries=0")
    assert "a  (parallelism 7)" in out
    assert "1 attempt at the most" in out
    code, _, err = command("plan", str(file), "--set", "c.parallelism=7")
    assert code == 2
    assert "c.parallelism=7: there is no function 'c'" in err


def test_the_labels_of_what_asks_for_some(command, tmp_path: Path) -> None:
    file = tmp_path / "labelled_x.py"
    file.write_text(
        "import firesteel as fs\np = fs.Pipeline('labelled')\np.add(fs.noop('a'))\n"
        "p.add(fs.noop('b', inputs=['a'], on='gpu'))\n"
    )
    _, out, _ = command("plan", str(file), "-D", "execution.on=big,fast")
    assert "a  (parallelism 1, on big, fast)" in out
    assert "b  (parallelism 1, on gpu)" in out
    assert "blocking (stored result)" in out


def test_the_attempts_of_what_runs_and_fails_together_are_the_fewest(command, tmp_path: Path) -> None:
    file = tmp_path / "fused_x.py"
    file.write_text(
        "import firesteel as fs\np = fs.Pipeline('fused')\n@p.source(retries=3)\ndef a(spark): ...\n"
        "@p.transform(retries=1)\ndef b(a): ...\n@p.sink\ndef c(b): ...\n"
    )
    _, out, _ = command("plan", str(file))
    assert out.count("2 attempts at the most") == 3, out
    assert "Where no number" not in out
    assert json.loads(command("plan", str(file), "--json")[1])["attempts"] == [2]


@pytest.mark.parametrize(
    ("definitions", "expected"),
    [
        ([], "1 attempt, unless the cluster has a restart strategy"),
        (["restart-strategy.type=off"], "1 attempt"),
        (["restart-strategy=fixed-delay"], "1 restart of the job at the most, each 1 s after a failure"),
        (["restart-strategy.type=failure-rate"], "restarts, as long as no more than 1 failure fall into 60 s"),
        (["restart-strategy.type=exponential-delay"], "restarts, after 1 s and then ever longer times up to 60 s"),
    ],
)
def test_what_is_done_about_failures_elsewhere(command, definitions: list[str], expected: str) -> None:
    given = [word for definition in definitions for word in ("-D", definition)]
    _, out, _ = command("plan", str(EXAMPLES / "wordcount.py"), *given)
    assert f"Where no number of attempts is stated: {expected}.\n" in out, out


def test_bad_pipeline(command, tmp_path: Path) -> None:
    file = tmp_path / "broken_x.py"
    file.write_text("import firesteel\ndef f(): 1 / 0\nf()\n")
    code, out, err = command("plan", str(file))
    assert (code, out) == (2, "")
    assert "broken_x.py:2): loading the file raised ZeroDivisionError" in err
    assert "line 3, in <module>" in command("plan", str(file), "--verbose")[2]


def test_needs_no_java() -> None:
    program = "from firesteel.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "plan", "examples/wordcount.py"],
        capture_output=True, text=True, check=True, cwd=EXAMPLES.parent, env={"PATH": "", "JAVA_HOME": "/none"},
    )  # fmt: skip
    assert "lines -> words -> counts -> result" in done.stdout


def test_a_sink_that_is_not_transactional_is_told(command, tmp_path: Path) -> None:
    file = tmp_path / "bare.py"
    file.write_text(
        "import firesteel as fs\np = fs.Pipeline('bare')\n@p.source\ndef a(spark):\n    return spark.range(1)\n"
        "@p.sink\ndef b(a):\n    a.write.parquet('x')\n"
    )
    code, out, _ = command("plan", str(file))
    assert code == 0
    assert "Warning: sink 'b' writes by none of fs.write_*" in out
    assert len(json.loads(command("plan", str(file), "--json")[1])["warnings"]) == 1


def test_what_the_file_imports_may_lie_elsewhere(command, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "planned_lib.py").write_text("NAME = 'from elsewhere'\n")
    file = tmp_path / "etl_planned_x.py"
    file.write_text(
        "import firesteel as fs, planned_lib\np = fs.Pipeline(planned_lib.NAME)\n@p.source\ndef a(spark): ...\n@p.sink\ndef b(a): ...\n"
    )
    assert command("plan", str(file))[0] == 2
    code, out, err = command("plan", str(file), "--py-files", f"{tmp_path}/lib/planned_lib.py")
    assert (code, "from elsewhere" in out) == (0, True), err
