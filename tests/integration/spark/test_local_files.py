"""Spark on local files: what ours does in place of Hadoop's."""

import os
from pathlib import Path

import pytest

from firesteel.adapters.spark.jvm import launch
from tests.integration.spark.inprocess import InProcess

pytestmark = pytest.mark.spark


def test_files_have_the_usual_permissions_and_no_checksum_files(local: InProcess, tmp_path: Path) -> None:
    mask = os.umask(0o022)
    os.umask(mask)
    target = tmp_path / "a b" / "größe=1"
    frame = local.spark.range(10).selectExpr("id", "id as value")
    frame.write.partitionBy("id").csv(str(target))  # the JVM has the mask of the tests
    made = list(target.rglob("*"))
    assert {path.stat().st_mode & 0o7777 for path in made if path.is_file()} == {0o666 & ~mask}
    assert {path.stat().st_mode & 0o7777 for path in made if path.is_dir()} == {0o777 & ~mask}
    assert not list(target.rglob(".*"))


def test_executors_elsewhere_have_hadoop_s_own(tmp_path: Path) -> None:
    key = "spark.hadoop.fs.file.impl"
    assert launch.spark_configuration(tmp_path, 2, {})[key] == "firesteel.LocalFiles"
    assert launch.spark_configuration(tmp_path, 2, {key: "own.Files"})[key] == "own.Files"
    assert key not in launch.spark_configuration(tmp_path, 2, {"spark.master": "spark://host:7077"})
