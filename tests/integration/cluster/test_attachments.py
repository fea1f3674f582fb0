"""Python files, files and archives of a job, where its functions run and in Spark's Python workers."""

import os
import tarfile
import zipfile
from pathlib import Path

import pytest

import firesteel as fs
from firesteel.minicluster import MiniCluster
from firesteel.model.states import JobStatus
from firesteel.pipeline.attachments import Attachments
from tests.integration.cluster.conftest import Do
from tests.integration.cluster.files import Files

pytestmark = pytest.mark.spark

BODY = """
import pathlib, shout
from pyspark import SparkFiles
from words.greeting import GREETING

def seen(where):
    from words.greeting import GREETING
    root = pathlib.Path(SparkFiles.getRootDirectory())
    return shout.shout(GREETING) + " " + where + " " + " ".join(
        (root / name).read_text() for name in ("my data.csv", "env/bin/tool", "plain.zip/inner.txt"))

@pipeline.source
def here(spark: SparkSession) -> DataFrame:
    assert pathlib.Path("my data.csv").read_text() == "DATA"
    return spark.createDataFrame([(seen("driver"),)], "text string").union(spark.range(1).select(F.udf(seen, "string")(F.lit("udf"))))

@pipeline.result
def out(here: DataFrame) -> DataFrame:
    return here
"""


def attachments(root: Path, word: str) -> Attachments:
    (root / "shout.py").write_text("def shout(text): return text.upper()\n")
    (root / "my data.csv").write_text("DATA")
    (root / "tool").write_text(word)
    with zipfile.ZipFile(root / "words-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("words/__init__.py", "")
        wheel.writestr("words/greeting.py", f"GREETING = 'hello {word}'\n")
    with zipfile.ZipFile(root / "plain.zip", "w") as plain:
        plain.writestr("inner.txt", "inner")
    with tarfile.open(root / "packed.tar.gz", "w:gz") as packed:
        packed.add(root / "tool", "bin/tool")
    return Attachments(
        py_files=tuple(os.fspath(root / name) for name in ("shout.py", "words-1-py3-none-any.whl")),
        files=(os.fspath(root / "my data.csv"),),
        archives=(f"{root / 'packed.tar.gz'}#env", os.fspath(root / "plain.zip")),
    )


def test_functions_and_udfs_find_what_travels_with_their_job(
    files: Files, cluster: MiniCluster, do: Do, tmp_path: Path
) -> None:
    """Each job its own, though they have equal names and share a Spark."""
    path = files.write(BODY)
    for word in ("one", "two"):
        done = do(files.run(path, attachments=attachments(tmp_path, word)))
        assert done.status is JobStatus.FINISHED, done.failure
        rows = fs.ResultRows(do(cluster.client.fetch_result(done.job_id, "out"))).rows()
        assert sorted(row.text for row in rows) == [
            f"HELLO {word.upper()} {where} DATA {word} inner" for where in ("driver", "udf")
        ]
