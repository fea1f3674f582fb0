"""Settings that a worker gives its own Spark."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from firesteel.adapters.spark.jvm.launch import (
    PYTHON_DAEMON,
    event_log_settings,
    jvm_environment,
    place_modules,
    spark_configuration,
)
from firesteel.model.secrets import is_secret
from firesteel.runtime.ports import TaskFailedError

REDACTION, KILLS = "spark.redaction.regex", "spark.ui.killEnabled"


def test_spark_hides_what_is_hidden_here(tmp_path: Path) -> None:
    pattern = spark_configuration(tmp_path, 1, {})[REDACTION]
    for key in (
        "spark.hadoop.fs.azure.account.key.me.dfs.core.windows.net",
        "kafka.sasl.jaas.config",
        "spark.hadoop.fs.s3a.encryption.key",
        "spark.x.http-headers",
        "spark.x.credential",
        "spark.x.api-key",
        "spark.x.auth-params",
        "spark.authenticate.SECRET",
        "spark.ssl.keyPassword",
        "spark.x.token",
        "spark.hadoop.fs.s3a.access.key",
    ):
        assert is_secret(key)
        assert re.search(pattern, key), key
    for known in ("spark.executor.memory", "fs.s3a.aws.credentials.provider", "x.client.credentials-provider"):
        assert not re.search(pattern, known)
    assert not re.search(pattern, "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"), "Spark looks at values, too"
    assert spark_configuration(tmp_path, 1, {REDACTION: "own"})[REDACTION] == "own"


@pytest.mark.parametrize("master", ["local[2]", "spark://host:7077"])
def test_no_page_can_kill(tmp_path: Path, master: str) -> None:
    for user in ({"spark.ui.enabled": "true"}, {KILLS: "true"}, {}):
        assert spark_configuration(tmp_path, 1, {"spark.master": master, **user})[KILLS] == "false"


def test_events_are_kept_in_a_directory_that_is_made_where_it_is_local(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    for text, made in (
        (f"file:{tmp_path}/one", "one"),
        (f"file://{tmp_path}/two%20words", "two words"),
        (f"{tmp_path}/as%20it#is", "as%20it#is"),
    ):
        assert event_log_settings(text) == {"spark.eventLog.enabled": "true", "spark.eventLog.dir": text}
        assert (tmp_path / made).is_dir()
    for text in ("hdfs:///events", "s3a://bucket/events", "hdfs:/events"):
        assert event_log_settings(text)["spark.eventLog.dir"] == text
    assert not list(here.iterdir())


def test_a_directory_that_can_not_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for text in (f"{tmp_path}/file/events", "file://[broken/events"):
        with pytest.raises(TaskFailedError, match=r"taskmanager\.spark\.event-log\.dir"):
            event_log_settings(text)


def test_an_interpreter_without_packages_finds_the_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing else that the worker has: a job's environment need not have what firesteel needs."""
    monkeypatch.setenv("PYTHONPATH", "/users/own")
    modules = place_modules(tmp_path)
    assert place_modules(tmp_path) == modules
    assert os.listdir(modules) == ["firesteel"]
    environment = jvm_environment("token", tmp_path / "printed", modules)
    assert environment["PYTHONPATH"] == f"/users/own:{modules}"
    bare = [sys.executable, "-S", "-c", f"import {PYTHON_DAEMON}"]
    subprocess.run(bare, env={"PYTHONPATH": str(modules)}, check=True, cwd=tmp_path)
