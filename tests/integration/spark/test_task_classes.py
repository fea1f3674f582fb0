"""Sessions share the code that Spark generates for their tasks, unless they have brought jars of their own."""

import contextlib
import shutil
import subprocess
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from firesteel.adapters.spark.jvm import launch
from firesteel.adapters.spark.session.attempt import AttemptSession
from firesteel.adapters.spark.wire import SessionName
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from tests.integration.spark.inprocess import InProcess
from tests.integration.spark.jobs import Runner

pytestmark = pytest.mark.spark

TWICE = """
public class Twice implements org.apache.spark.sql.api.java.UDF1<Long, Long> {
    public Long call(Long number) { return 2 * number; }
}
"""


class Sessions:
    """New ones, as attempts have them, one after another."""

    def __init__(self, backend: SparkTaskBackend, do: Runner) -> None:
        self._endpoint = do(backend.endpoint(for_outsider=True))

    @contextlib.contextmanager
    def one(self) -> Iterator[Any]:
        name = SessionName("tester", str(uuid.uuid4()))
        session: Any = AttemptSession(lambda: self._endpoint, name, "tests", {}).get()
        try:
            yield session
        finally:
            session.stop()


@pytest.fixture
def sessions(local: InProcess, backend: SparkTaskBackend, do: Runner) -> Sessions:
    return Sessions(backend, do)


@pytest.mark.skipif(shutil.which("jcmd") is None, reason="no JDK")
def test_the_queries_of_a_new_session_are_not_compiled_again(sessions: Sessions, scratch: Path) -> None:
    def compiled() -> int:
        """Classes that the query of a new session has had compiled."""
        before = _generated_classes(scratch)
        with sessions.one() as session:
            session.range(1000).selectExpr("id % 19 k", "id % 23 v").groupBy("k").sum("v").orderBy("k").collect()
        return len(_generated_classes(scratch) - before)

    assert compiled() > 0
    assert compiled() == 0


@pytest.mark.skipif(shutil.which("javac") is None, reason="no JDK")
def test_classes_that_a_session_has_brought_are_found_there_and_nowhere_else(
    sessions: Sessions, tmp_path: Path
) -> None:
    (tmp_path / "Twice.java").write_text(TWICE)
    spark_jars = f"{launch.find_installation().home}/jars/*"
    subprocess.run(["javac", "--release", "17", "-cp", spark_jars, "Twice.java"], cwd=tmp_path, check=True)
    _pack(tmp_path / "twice.jar", tmp_path / "Twice.class")
    with sessions.one() as session:
        session.range(3).collect()  # its tasks have had Spark's own loader
        session.addArtifacts(str(tmp_path / "twice.jar"))
        session.udf.registerJavaFunction("twice", "Twice", "long")
        rows = session.range(1000).selectExpr("twice(id) t").groupBy("t").count().collect()
        assert {row.t for row in rows} == set(range(0, 2000, 2))
    with sessions.one() as other, pytest.raises(Exception, match="Twice"):
        other.udf.registerJavaFunction("twice", "Twice", "long")


def test_the_plugin_is_there_where_tasks_find_all_on_the_class_path_of_the_jvm(tmp_path: Path) -> None:
    def plugins(**user: str) -> str | None:
        settings = {name.replace("_", "."): value for name, value in user.items()}
        return launch.spark_configuration(tmp_path, 1, settings).get("spark.plugins")

    assert plugins() == "firesteel.TaskClasses"
    assert plugins(spark_plugins="own.Plugin") == "own.Plugin,firesteel.TaskClasses"
    assert plugins(spark_jars_packages="org:own:1") is None
    assert plugins(spark_master="spark://host:7077") is None
    assert plugins(spark_master="spark://host:7077", spark_plugins="own.Plugin") == "own.Plugin"


def _pack(jar: Path, *files: Path) -> None:
    with zipfile.ZipFile(jar, "w") as packed:
        packed.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
        for file in files:
            packed.write(file, file.name)


def _generated_classes(work: Path) -> set[str]:
    """Of the JVM that works there, beside which others may run. Each has a class loader of its own, and these are known by
    where the JVM has their data: of their number nothing follows, since some may be unloaded at any time."""
    javas = [each for each in psutil.Process().children(recursive=True) if each.name() == "java"]
    (jvm,) = (each for each in javas if str(work) in " ".join(each.cmdline()))
    command = ("jcmd", str(jvm.pid), "VM.classloader_stats")
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[2] for line in lines if "ByteArrayClassLoader" in line}
