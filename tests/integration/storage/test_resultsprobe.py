"""Whether a process reaches the storage of results: found out before it works, and told in one sentence."""

import os
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from firesteel.adapters.storage import s3keys
from firesteel.adapters.storage.resultsprobe import IDENTITY, ResultsUnusable, probe_results
from firesteel.model.options import Configuration
from tests.durable.s3 import s3_server
from tests.stack.test_s3_commits import keys_at


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3_server(tmp_path_factory.mktemp("s3")) as url:
        yield url


def settings(url: str, where: str) -> Configuration:
    return Configuration(
        {"cluster.results-dir": where, "s3.endpoint": url, "s3.access-key": "key", "s3.secret-key": "secret"}
    )


def refused(config: Configuration) -> str:
    begun = time.monotonic()
    with pytest.raises(ResultsUnusable) as error:
        probe_results(config, "taskmanager tm", {})
    assert time.monotonic() - begun < 20
    assert "\n" not in str(error.value)
    return str(error.value)


def test_workers_that_reach_one_storage_find_one_identity(tmp_path: Path, url: str) -> None:
    shared, other = str(tmp_path / "made" / "shared"), str(tmp_path / "other")
    for configs in (
        [Configuration({"cluster.results-dir": each}) for each in (shared, f"file://{shared}", other)],
        [settings(url, f"s3://firesteel/{each}") for each in ("of it/x", "of it//x", "other")],
        [
            Configuration({"cluster.work-dir": each})
            for each in (str(tmp_path / "w"), str(tmp_path / "w"), other + "-w")
        ],
    ):
        first, same, elsewhere = (probe_results(config, "taskmanager tm", {}) for config in configs)
        assert first == same
        assert first.identity != elsewhere.identity
    assert os.listdir(shared) == [IDENTITY], "the probe is gone"
    assert [each.key for each in keys_at(url).found("of it/")] == [f"of it/x/{IDENTITY}"]


def test_workers_of_one_host_read_their_temporary_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = probe_results(Configuration(), "taskmanager tm", {})
    assert mine == probe_results(Configuration(), "taskmanager other", {})
    monkeypatch.setattr("platform.node", lambda: "elsewhere")
    assert probe_results(Configuration(), "taskmanager tm", {}).identity != mine.identity


def test_what_can_not_be_used_is_told_with_process_place_and_way_out(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins = "taskmanager tm can't use s3a://absent/x (cluster.results-dir) for stored results: s3://absent/x"
    told = refused(settings(url, "s3://absent/x"))
    assert told.startswith(begins)
    assert "says NoSuchBucket: there is no such bucket: make it, or correct the name; mend that, or" in told
    assert told.endswith("or set cluster.results-dir to what all workers reach")
    with s3_server(tmp_path, knows_nobody=True) as strict:
        told = refused(settings(strict, "s3://firesteel/x"))
    assert f"s3://firesteel/x/: {strict} says InvalidAccessKeyId: the access key is unknown there: set" in told
    (tmp_path / "file").touch()
    told = refused(Configuration({"cluster.work-dir": str(tmp_path / "file" / "x")}))
    assert re.match(rf"taskmanager tm can't use {tmp_path}/file/x \(cluster.work-dir\) for .*Not a directory", told), (
        told
    )
    monkeypatch.setattr(s3keys, "SILENCE_LIMIT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        told = refused(settings(f"http://127.0.0.1:{silent.getsockname()[1]}", "s3://firesteel/x"))
    assert "does not answer (Read timeout" in told
    assert "is s3.endpoint right?" in told
