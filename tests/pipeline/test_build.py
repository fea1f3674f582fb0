"""Bytes in, bytes out: what a child process makes of a file; and jobs of functions that live in no file."""

import hashlib
import importlib
import os
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import cloudpickle
import msgspec
import pytest

import firesteel as fs
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import InvalidJobGraph
from firesteel.pipeline.build import BuildFailure, BuildRequest, BuiltJob, build_in_child, build_job, decode_build_reply

JOB = JobID("0" * 32)
SOURCE = """\
import firesteel as fs

pipeline = fs.Pipeline("p")

@pipeline.source
def lines(spark, path: str):
    return [path]

def make(n):
    @pipeline.transform
    def bigger(lines):
        return lines + [n] + lines
    return bigger

make(7)

@pipeline.sink
def result(bigger, n: int = 3): ...
"""


def request(file: Path, out: Path, **options) -> BuiltJob | BuildFailure:
    out.mkdir(exist_ok=True)
    asked = BuildRequest(file=os.fspath(file), job_id=JOB, output_dir=os.fspath(out), **options)
    return decode_build_reply(build_in_child(msgspec.json.encode(asked)))


def test_a_file_becomes_a_graph_and_a_package(tmp_path: Path) -> None:
    file = tmp_path / "code" / "etl_built_x.py"
    file.parent.mkdir()
    file.write_text(SOURCE)
    built = request(file, tmp_path / "out", parameters={"path": "a"})
    assert isinstance(built, BuiltJob)
    functions = {function.name: function for vertex in built.graph.vertices for function in vertex.functions}
    assert functions["lines"].entry_point == "etl_built_x:lines"
    assert functions["bigger"].entry_point == "functions.pickle:bigger"
    assert functions["lines"].location == "etl_built_x.py:5"
    assert built.graph.parameters == {"path": "a", "n": 3}
    assert [artifact.kind for artifact in built.graph.artifacts] == ["code", "pickle"]
    for artifact in built.graph.artifacts:
        content = Path(built.artifacts[artifact.sha256]).read_bytes()
        assert (hashlib.sha256(content).hexdigest(), len(content)) == (artifact.sha256, artifact.size_bytes)


def test_a_worker_finds_the_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a task process does it: zip on the module path, functions by entry point or from the pickle."""
    file = tmp_path / "code" / "01 etl.py"
    file.parent.mkdir()
    file.write_text(SOURCE)
    built = request(file, tmp_path / "out", parameters={"path": "a"})
    assert isinstance(built, BuiltJob)
    package, pickle = (built.artifacts[artifact.sha256] for artifact in built.graph.artifacts)
    assert sorted(zipfile.ZipFile(package).namelist()) == ["01 etl.py", "pipeline_01_etl.py"]
    monkeypatch.setattr(sys, "path", [package, *sys.path])
    lines = importlib.import_module("pipeline_01_etl").lines
    bigger = cloudpickle.loads(Path(pickle).read_bytes())["bigger"]
    assert bigger(lines(None, "a")) == ["a", 7, "a"]
    del sys.modules["pipeline_01_etl"]


def test_a_package_named_like_a_parameters_value_travels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a function of it is imported, at once or when it runs; what holds no module of the job is data."""
    file = tmp_path / "code" / "etl_built_x.py"
    for name in ("eu_built/rates.py", "us_built/rates.py", "eu_data/a.txt"):
        (file.parent / name).parent.mkdir(parents=True)
        (file.parent / name).write_text("")
    body = "    from us_built import rates\n    return [path]"
    file.write_text("from eu_built import rates\n" + SOURCE.replace("    return [path]", body, 1))
    monkeypatch.chdir(file.parent)
    expected = {"eu_built": True, "us_built": True, "eu_data": False}
    for region, travels in expected.items():
        built = request(file, tmp_path / "out", parameters={"path": region})
        assert isinstance(built, BuiltJob)
        package = zipfile.ZipFile(built.artifacts[built.graph.artifacts[0].sha256])
        assert any(name.startswith(f"{region}/") for name in package.namelist()) is travels


def test_failure_is_data(tmp_path: Path) -> None:
    file = tmp_path / "etl_built_x.py"
    file.write_text(SOURCE)
    failure = request(file, tmp_path / "out")
    assert isinstance(failure, BuildFailure)
    assert failure.function == "lines"
    assert failure.location.endswith("etl_built_x.py:5")
    assert "parameter 'path' (str) is missing: give --param path=..." in failure.message
    wrong = request(file, tmp_path / "out", parameters={"path": "a"}, configuration={"rest.prt": "1"})
    assert isinstance(wrong, BuildFailure)
    assert "unknown configuration key" in wrong.message


def test_a_plan_needs_no_artifacts(tmp_path: Path) -> None:
    file = tmp_path / "etl_built_x.py"
    file.write_text(SOURCE)
    asked = BuildRequest(file=os.fspath(file), job_id=JOB, require_parameters=False)
    built = decode_build_reply(build_in_child(msgspec.json.encode(asked)))
    assert isinstance(built, BuiltJob)
    assert (built.artifacts, built.graph.artifacts) == ({}, ())
    assert [(parameter.name, parameter.required) for parameter in built.parameters] == [("path", True), ("n", False)]


def beside(value: int) -> int:
    return value + 1


def test_functions_of_this_process_travel_pickled(tmp_path: Path) -> None:
    pipeline = fs.Pipeline("here")

    @pipeline.source
    def numbers() -> int:
        return beside(1)

    @pipeline.sink
    def result(numbers) -> None: ...

    built = build_job(pipeline, job_id=JOB, output_dir=tmp_path)
    modules, artifact = built.graph.artifacts
    assert (modules.kind, artifact.kind) == ("code", "pickle")
    assert "tests/pipeline/test_build.py" in zipfile.ZipFile(built.artifacts[modules.sha256]).namelist()
    path = built.artifact_paths()[artifact.sha256]
    program = f"import cloudpickle; print(cloudpickle.load(open({os.fspath(path)!r}, 'rb'))['numbers']())"
    elsewhere = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd="/")
    assert elsewhere.stdout == "2\n"


def test_what_can_not_be_pickled_is_named(tmp_path: Path) -> None:
    pipeline = fs.Pipeline("here")
    lock = threading.Lock()

    @pipeline.source
    def numbers() -> object:
        return lock

    @pipeline.sink
    def result(numbers) -> None: ...

    with pytest.raises(InvalidJobGraph, match="can't pickle numbers, result: "):
        build_job(pipeline, job_id=JOB, output_dir=tmp_path)
