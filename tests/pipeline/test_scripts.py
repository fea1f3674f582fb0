"""Scripts are told from pipelines by their source alone."""

import zipfile
from pathlib import Path

import pytest

from firesteel.model.ids import JobID
from firesteel.pipeline.build import BuildRequest, build_file
from firesteel.pipeline.packaging import DATA_FILE_BYTES
from firesteel.pipeline.scripts import is_script


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from pyspark.sql import SparkSession\n", True),
        ("", True),
        ("# import firesteel\ntext = 'import firesteel'\n", True),
        ("import firesteel_tools\nfrom . import firesteel\n", True),
        ("import firesteel as fs\n", False),
        ("import os, firesteel.pipeline\n", False),
        ("def f():\n    from firesteel import Pipeline\n", False),
        ("def f(:\n", True),
        ("import firesteel\ndef f(:\n", False),
    ],
)
def test_an_import_of_firesteel_makes_a_pipeline(tmp_path: Path, source: str, expected: bool) -> None:
    file = tmp_path / "job.py"
    file.write_text(source)
    assert is_script(str(file)) is expected
    assert not is_script(f"{file}:pipeline")


def test_what_is_no_python_file_is_no_script(tmp_path: Path) -> None:
    (tmp_path / "job.txt").write_text("")
    (tmp_path / "directory.py").mkdir()
    assert not any(is_script(str(tmp_path / name)) for name in ("job.txt", "directory.py", "nothing.py"))


def test_code_and_small_files_beside_a_script_travel_with_it(tmp_path: Path) -> None:
    source = tmp_path / "code"
    (source / "lib").mkdir(parents=True)
    (source / "input").mkdir()
    for name, size in {
        "job.py": 0, "lib/more.py": 2, "small.csv": 5, "large.csv": DATA_FILE_BYTES, "input/a.csv": 5, "named.csv": 5,
        "lib/large.whl": DATA_FILE_BYTES,
    }.items():  # fmt: skip
        (source / name).write_bytes(b"\n" * size)
    output = tmp_path / "artifacts"
    output.mkdir()
    asked = BuildRequest(
        file=str(source / "job.py"),
        job_id=JobID("0" * 32),
        arguments=(f"--input={source / 'input'}", "word"),
        output_dir=str(output),
    )
    built = build_file(asked)
    (package,) = built.graph.artifacts
    with zipfile.ZipFile(built.artifacts[package.sha256]) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
    assert names == ["job.py", "lib/large.whl", "lib/more.py", "named.csv", "small.csv"]
