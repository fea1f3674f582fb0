"""A user's file is run as a module of its own; what is wrong with it is said with its line."""

import os
import sys
from pathlib import Path

import pytest

from firesteel.model.jobgraph import InvalidJobGraph
from firesteel.pipeline.errors import InvalidPipeline
from firesteel.pipeline.loading import load_pipeline, loaded_pipeline

GOOD = """\
import firesteel as fs
pipeline = fs.Pipeline("good")

@pipeline.source
def lines(spark): ...

@pipeline.sink
def result(lines): ...
"""


def file_with(tmp_path: Path, text: str, name: str = "etl_test_file.py") -> str:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return os.fspath(path)


def refused(reference: str) -> InvalidPipeline:
    with pytest.raises(InvalidPipeline) as caught:
        load_pipeline(reference)
    return caught.value


@pytest.mark.parametrize(
    "name", ["etl_x.py", "my pipeline.py", "wörter.py", "01-etl.v2.py", "json.py", "pyspark.py", "a:b.py", "test.py"]
)
def test_any_file_name_will_do(tmp_path: Path, name: str) -> None:
    path = file_with(tmp_path, GOOD, name)
    before, modules = list(sys.path), set(sys.modules)
    with loaded_pipeline(path) as loaded:
        assert loaded.pipeline.name == "good"
        assert all(part.isidentifier() for part in loaded.module.split("."))
    assert sys.path == before
    assert not {name for name in set(sys.modules) - modules if name == loaded.module}


def test_modules_beside_the_file_and_packages_around_it(tmp_path: Path) -> None:
    file_with(tmp_path, "NAME = 'near'", "src/pkgx/names.py")
    file_with(tmp_path, "", "src/pkgx/__init__.py")
    file_with(tmp_path, "NAME = 'beside'", "src/sibling_x.py")
    text = GOOD.replace('"good"', "NAME + ' ' + sibling_x.NAME") + "\n"
    path = file_with(tmp_path, "import sibling_x\nfrom .names import NAME\n" + text, "src/pkgx/etl.py")
    with loaded_pipeline(path) as loaded:
        assert loaded.pipeline.name == "near beside"
        assert (loaded.module, loaded.root) == ("pkgx.etl", tmp_path / "src")
    assert "sibling_x" not in sys.modules


def test_two_files_with_one_name_do_not_meet(tmp_path: Path) -> None:
    for name in ("one", "two"):
        file_with(tmp_path, f"NAME = {name!r}", f"{name}/neighbour_x.py")
        path = file_with(
            tmp_path, "from neighbour_x import NAME\n" + GOOD.replace('"good"', "NAME"), f"{name}/etl_x.py"
        )
        assert load_pipeline(path).name == name


def test_choice_between_several(tmp_path: Path) -> None:
    path = file_with(tmp_path, "import firesteel as fs\na = fs.Pipeline('first')\nb = fs.Pipeline('second')\nc = a\n")
    error = refused(path)
    assert "has 2 pipelines: choose one of " in str(error)
    assert f"{error.message.split('choose one of ')[1].split(',')[0]}".endswith("etl_test_file.py:a")
    assert load_pipeline(f"{path}:b").name == "second"
    assert load_pipeline(f"{path}:first").name == "first"
    assert "has no pipeline 'd'; it has a, b, c" in str(refused(f"{path}:d"))


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("x = 1\nif x\n", 2, "syntax error: expected ':'"),
        ("import sys\nsys.exit(3)\n", 2, "the file calls sys.exit(3) when it is loaded"),
        ("\n\n1 / 0\n", 3, "loading the file raised ZeroDivisionError: division by zero"),
        (
            "import no_such_module_x\n",
            1,
            "loading the file raised ModuleNotFoundError: No module named 'no_such_module_x'",
        ),
        ("import firesteel as fs\nfs.hash_by()\n", 2, "hash_by(): name at least one column"),
        ("import firesteel as fs\np = fs.Pipeline('')\n", 2, "give the pipeline a name"),
        ("x = '\\udc80'.encode()\n", 1, "loading the file raised UnicodeEncodeError"),
    ],
)
def test_code_that_fails(tmp_path: Path, text: str, line: int, message: str) -> None:
    path = file_with(tmp_path, text)
    error = refused(path)
    assert message in error.message
    assert (error.file, error.line) == (path, line)


def test_trace_starts_in_the_users_file(tmp_path: Path) -> None:
    path = file_with(tmp_path, "def f():\n    raise ValueError('no')\n\nf()\n")
    error = refused(path)
    assert error.line == 2
    assert error.trace.splitlines()[0].startswith(f'  File "{path}", line 4')
    assert "firesteel/pipeline" not in error.trace


def test_error_in_a_module_that_is_imported(tmp_path: Path) -> None:
    file_with(tmp_path, "\nraise KeyError('k')\n", "broken_neighbour_x.py")
    error = refused(file_with(tmp_path, "import broken_neighbour_x\n"))
    assert (Path(error.file).name, error.line) == ("broken_neighbour_x.py", 2)


def test_no_pipeline_no_file_no_python(tmp_path: Path) -> None:
    path = file_with(tmp_path, "x = 1\n")
    assert "has no pipeline: assign one at module level" in str(refused(path))
    missing = str(refused(os.fspath(tmp_path / "etl_test_fil.py")))
    assert missing.startswith("no such file: ")
    assert missing.endswith("did you mean 'etl_test_file.py'?")
    assert "is a directory" in str(refused(os.fspath(tmp_path)))
    assert "its name must end in .py" in str(refused(file_with(tmp_path, "{}", "a.ipynb")))


def test_what_the_file_prints_goes_to_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load_pipeline(file_with(tmp_path, "print('hello')\n" + GOOD))
    assert capsys.readouterr() == ("", "hello\n")


def test_bytes_that_are_no_python(tmp_path: Path) -> None:
    path = tmp_path / "etl_test_file.py"
    for content in (b"\xff\xfe = 1\n", b"x = 1\0\n"):
        path.write_bytes(content)
        with pytest.raises(InvalidJobGraph, match=r"syntax error|loading the file raised"):
            load_pipeline(os.fspath(path))
