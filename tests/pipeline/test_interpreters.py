"""A job's own interpreter: what becomes of it, and what is refused before anything is sent."""

import stat
import sys
import zipfile
from pathlib import Path

import pytest

import firesteel as fs
from firesteel.model.ids import JobID
from firesteel.model.interpreters import interpreter_of
from firesteel.pipeline.attachments import Attachments
from firesteel.pipeline.build import BuildFailure, BuiltJob
from tests.environments import LIBRARY, environment, tarred, zipped
from tests.pipeline.test_build import request

SOURCE = """\
import firesteel as fs
pipeline = fs.Pipeline("p")

@pipeline.source
def lines(spark): ...

@pipeline.sink
def result(lines): ...
"""


@pytest.fixture
def packed(tmp_path: Path) -> str:
    return tarred(environment(tmp_path / "env", "one"), tmp_path / "env.tar.gz")


def built(tmp_path: Path, executable: str, *archives: str, **more: str) -> BuiltJob | BuildFailure:
    file = tmp_path / "code" / "job.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(SOURCE)
    configuration = {"python.executable": executable, **more}
    return request(file, tmp_path / "out", attachments=Attachments(archives=archives), configuration=configuration)


def refusal(tmp_path: Path, executable: str, *archives: str, **more: str) -> str:
    failure = built(tmp_path, executable, *archives, **more)
    assert isinstance(failure, BuildFailure), failure
    return failure.message


@pytest.mark.parametrize("written", ["env/bin/python", "./env/bin/python"])
def test_an_interpreter_in_an_archive_travels_with_its_job(tmp_path: Path, packed: str, written: str) -> None:
    job = built(tmp_path, written, f"{packed}#env")
    assert isinstance(job, BuiltJob), job
    interpreter = interpreter_of(job.graph)
    assert interpreter is not None
    assert (interpreter.executable, interpreter.archive) == ("env/bin/python", job.graph.artifacts[-1])


def test_a_zip_travels_with_the_permissions_that_are_in_it(tmp_path: Path) -> None:
    directory = environment(tmp_path / "env", "one")
    packed = zipped(directory, tmp_path / "env.zip")
    assert isinstance(built(tmp_path, "env.zip/bin/python", packed), BuiltJob)


def test_pipelines_of_a_process_have_one_too(tmp_path: Path, packed: str) -> None:
    pipeline = fs.Pipeline("p")

    @pipeline.source
    def numbers(spark): ...

    @pipeline.sink
    def out(numbers): ...

    attachments = fs.Attachments(archives=(f"{packed}#env",))
    job = fs.build_job(
        pipeline,
        job_id=JobID("0" * 32),
        output_dir=tmp_path,
        attachments=attachments,
        configuration={"python.executable": "env/bin/python"},
    )
    assert interpreter_of(job.graph) is not None
    assert packed in job.artifacts.values()


def test_names_that_lead_nowhere_are_refused(tmp_path: Path, packed: str) -> None:
    told = "python.executable"
    assert refusal(tmp_path, "env/bin/python") == (
        f"{told} env/bin/python: no archive of the job is called env: add --archives FILE.tar.gz#env"
    )
    for nowhere in ("python3", "/usr/bin/python3", "env/../bin/python", "env//python"):
        assert refusal(tmp_path, nowhere, f"{packed}#env") == (
            f"{told} {nowhere}: write NAME/bin/python, with the NAME of one of the job's --archives"
        )
    assert refusal(tmp_path, "env/bin/python3.11", f"{packed}#env") == (
        f"{told} env/bin/python3.11: env.tar.gz#env has no bin/python3.11"
    )


def test_an_archive_with_a_directory_on_top_says_where_its_interpreter_is(tmp_path: Path) -> None:
    environment(tmp_path / "all" / "env", "one")
    packed = tarred(tmp_path / "all", tmp_path / "packed.tgz")
    assert refusal(tmp_path, "packed.tgz/bin/python", packed).endswith(
        "packed.tgz has no bin/python; it has packed.tgz/env/bin/python"
    )
    assert isinstance(built(tmp_path, "packed.tgz/env/bin/python", packed), BuiltJob)


def test_what_spark_unpacks_without_permissions_or_links_is_refused(tmp_path: Path) -> None:
    directory = environment(tmp_path / "env", "one")
    packed = tarred(directory, tmp_path / "env.tar")
    assert refusal(tmp_path, "env.tar/bin/python", packed) == (
        "--archives env.tar: Spark unpacks a .tar without permissions, and could not run bin/python: pack a .tar.gz"
    )
    with zipfile.ZipFile(tmp_path / "env.zip", "w") as archive:
        link = zipfile.ZipInfo("bin/python")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, sys.executable)
    assert "nobody may run bin/python of env.zip" in refusal(tmp_path, "env.zip/bin/python", f"{tmp_path / 'env.zip'}")


def test_what_nobody_may_run_is_refused(tmp_path: Path) -> None:
    directory = environment(tmp_path / "env", "one")
    (directory / "bin" / "python").unlink()
    (directory / "bin" / "python").write_text("#!/bin/sh\n")
    packed = tarred(directory, tmp_path / "env.tar.gz")
    assert refusal(tmp_path, "env.tar.gz/bin/python", packed).endswith(
        "nobody may run bin/python of env.tar.gz: pack it with its permissions, and a link in a .tar.gz"
    )


def test_another_version_of_python_is_refused(tmp_path: Path) -> None:
    directory = environment(tmp_path / "env", "one")
    (directory / LIBRARY).rename(directory / "lib" / "python3.9")
    packed = tarred(directory, tmp_path / "env.tar.gz")
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"it is Python 3.9, and the job is built with Python {here}" in refusal(
        tmp_path, "env.tar.gz/bin/python", packed
    )


def test_a_damaged_archive_is_refused(tmp_path: Path, packed: str) -> None:
    whole = Path(packed).read_bytes()
    Path(packed).write_bytes(whole[: len(whole) // 2])
    assert refusal(tmp_path, "env/bin/python", f"{packed}#env").startswith("--archives env.tar.gz#env: it is damaged: ")
    middle = len(whole) // 2
    Path(packed).write_bytes(whole[:middle] + b"\0" * 64 + whole[middle + 64 :])
    assert refusal(tmp_path, "env/bin/python", f"{packed}#env").startswith("--archives env.tar.gz#env: it is damaged: ")


@pytest.mark.parametrize("name", ["spark.pyspark.python", "spark.sql.execution.pyspark.python"])
def test_sparks_own_names_lead_to_ours(tmp_path: Path, packed: str, name: str) -> None:
    assert refusal(tmp_path, "", f"{packed}#env", **{name: "./env/bin/python"}) == (
        f"{name} ./env/bin/python: of one job, say --py-executable env/bin/python"
    )
    assert isinstance(built(tmp_path, "", f"{packed}#env", **{name: "/usr/bin/python3"}), BuiltJob)
