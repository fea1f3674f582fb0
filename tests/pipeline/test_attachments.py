"""Python files, data files and archives that travel with a job: what becomes of them, and what is refused."""

import os
import re
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from firesteel.pipeline.attachments import Attachments
from firesteel.pipeline.build import BuildFailure, BuiltJob
from tests.pipeline.test_build import request

SOURCE = """\
import firesteel as fs
import attached_one
from attached_pack import two

pipeline = fs.Pipeline("p")

@pipeline.source(uid=attached_one.NAME + two.NAME)
def lines(spark): ...

@pipeline.sink
def result(lines): ...
"""


def zipped(path: Path, **members: str) -> str:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return os.fspath(path)


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    file = tmp_path / "code" / "etl_attached_x.py"
    file.parent.mkdir()
    file.write_text(SOURCE)
    return file


@pytest.fixture
def python(tmp_path: Path) -> tuple[str, str]:
    """A module, and a wheel with a package."""
    (tmp_path / "attached_one.py").write_text("NAME = 'one'\n")
    wheel = zipped(tmp_path / "pack-1-py3-none-any.whl", **{"attached_pack/two.py": "NAME = 'two'\n"})
    return os.fspath(tmp_path / "attached_one.py"), wheel


def test_all_of_it_travels(pipeline: Path, python: tuple[str, str], tmp_path: Path) -> None:
    data, env = tmp_path / "data.csv", tmp_path / "env.tar.gz"
    data.write_text("a,b\n")
    with tarfile.open(env, "w:gz") as archive:
        archive.add(data, "data.csv")
    given = Attachments(py_files=python, files=(f"{data}", f"{data}#again.csv"), archives=(f"{env}#env", f"{env}"))
    path_before = list(sys.path)
    built = request(pipeline, tmp_path / "out", attachments=given)
    assert isinstance(built, BuiltJob), built
    assert sys.path == path_before
    assert "attached_one" not in sys.modules
    assert [(each.name, each.kind) for each in built.graph.artifacts] == [
        ("code.zip", "code"),
        ("attached_one.py", "code"),
        ("pack-1-py3-none-any.whl", "code"),
        ("data.csv", "file"),
        ("data.csv#again.csv", "file"),
        ("env.tar.gz#env", "archive"),
        ("env.tar.gz", "archive"),
    ]
    assert [each.target for each in built.graph.artifacts[3:]] == ["data.csv", "again.csv", "env", "env.tar.gz"]
    for artifact in built.graph.artifacts:
        assert Path(built.artifacts[artifact.sha256]).stat().st_size == artifact.size_bytes
    module = built.artifacts[built.graph.artifacts[1].sha256]
    assert zipfile.ZipFile(module).namelist() == ["attached_one.py"]


def test_what_can_not_travel_is_refused(pipeline: Path, python: tuple[str, str], tmp_path: Path) -> None:
    pipeline.write_text(SOURCE.replace("import attached_one\nfrom attached_pack import two\n", "").replace(
        "uid=attached_one.NAME + two.NAME", ""))  # fmt: skip
    (tmp_path / "other").mkdir()
    for directory in (tmp_path, tmp_path / "other"):
        (directory / "data.csv").write_text("a")
        (directory / "attached_one.py").write_text("")
    text, here, other = tmp_path / "text.zip", tmp_path / "data.csv", tmp_path / "other" / "data.csv"
    text.write_text("no zip")
    broken = tmp_path / "broken.tgz"
    broken.write_bytes(b"no tar")
    refused: list[tuple[Attachments, str]] = [
        (Attachments(py_files=(f"{tmp_path}/none.py",)), "--py-files .*none.py: no such file"),
        (Attachments(py_files=(f"{tmp_path}/other",)), "it is no file"),
        (Attachments(py_files=(f"{here}",)), "must end in .py, .zip"),
        (Attachments(py_files=(f"{text}",)), "it is no zip archive"),
        (Attachments(py_files=(python[0], f"{tmp_path}/other/attached_one.py")), "name attached_one.py twice"),
        (Attachments(files=(f"{tmp_path}/none",)), "--files .*no such file"),
        (Attachments(files=(f"{here}", f"{other}")), "--files and --archives name data.csv twice"),
        (Attachments(files=(f"{here}",), archives=(f"{python[1]}#data.csv",)), "must end in .zip"),
        (Attachments(files=(f"{here}#../up",)), "can't call a file so"),
        (Attachments(files=(f"{here}#a#b",)), "can't call a file so"),
        (Attachments(files=(f"{here}#",)), "can't call a file so"),
        (Attachments(archives=(f"{text}",)), "it is no .zip archive"),
        (Attachments(archives=(f"{broken}",)), "it is no .tgz archive"),
    ]
    for given, words in refused:
        built = request(pipeline, tmp_path / "out", attachments=given)
        assert isinstance(built, BuildFailure), given
        assert built.message
        assert re.search(words, built.message), (words, built.message)
    with open(here, "wb") as large:
        large.truncate(2 << 20)
    built = request(pipeline, tmp_path / "out", attachments=Attachments(files=(f"{here}",)),
                    configuration={"blob.size.max": "1m"})  # fmt: skip
    assert isinstance(built, BuildFailure)
    assert built.message == "data.csv has 2.0 MiB, and blob.size.max is 1 MiB"
