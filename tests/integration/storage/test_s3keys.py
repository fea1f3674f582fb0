"""A bucket as sinks need it: the one in memory, which tests rely on, is like that of a server; and what goes wrong there."""

import functools
import io
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from firesteel.adapters.spark.exchange import footers
from firesteel.adapters.storage import objectdirectories, s3keys
from firesteel.adapters.storage.errors import TargetBusy, TargetRefused, Unusable
from firesteel.adapters.storage.keys import Found, Keys
from firesteel.adapters.storage.lease import LEASE_S, Lease, LeaseLost
from firesteel.adapters.storage.objects import Conflict
from firesteel.adapters.storage.objectsinks import ObjectSinks
from firesteel.adapters.storage.s3keys import S3Keys
from firesteel.adapters.storage.s3settings import S3Access, hadoop_settings
from firesteel.model.options import Configuration
from tests.durable.s3 import s3_server
from tests.integration.storage.fakekeys import FakeKeys, Time


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3_server(tmp_path_factory.mktemp("s3")) as url:
        yield url


def access(url: str) -> S3Access:
    config = Configuration({"s3.endpoint": url, "s3.access-key": "key", "s3.secret-key": "secret"})
    return S3Access.of(hadoop_settings(config, {}))


@pytest.fixture(params=["memory", "s3"])
def keys(request: pytest.FixtureRequest, url: str) -> Keys:
    return FakeKeys() if request.param == "memory" else S3Keys("firesteel", access(url))


def nothing() -> None:
    """Nobody minds."""


def test_files_are_uploaded_whole_however_large(keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3keys, "UPLOAD_PART_BYTES", 5 * 1024 * 1024)  # S3 has no smaller ones
    for size in (0, 1_000, 11 * 1024 * 1024):
        (tmp_path / "file").write_bytes(os.urandom(size))
        for _ in range(2):
            keys.upload("a b/ü%20", tmp_path / "file")
        assert keys.get("a b/ü%20").data == (tmp_path / "file").read_bytes()
    keys.delete(["a b/ü%20"])


NAMES = ("d/", "d/a%2Fb=1/x y", "d/k=ä#?&+[~]{}/z", "d/sub/one", "d/sub/two", "d0")


def test_keys_are_taken_as_they_are(keys: Keys) -> None:
    for name in NAMES:
        keys.write(name, name.encode())
    sizes = [Found(name, len(name.encode())) for name in NAMES]
    assert list(keys.found("d/")) == sizes[:-1]
    assert list(keys.found("d", at_most=1)) == sizes[:1]
    assert list(keys.found("nothing")) == []
    assert sorted(keys.steps("d/")) == ["a%2Fb=1", "k=ä#?&+[~]{}", "sub"]
    for found in sizes[:-1]:
        keys.copy(found.key, f"copy/{found.key}", found.size_bytes, nothing)
        assert keys.get(f"copy/{found.key}").data == found.key.encode()
    assert keys.get_range("d/sub/one", 2, 5) == b"sub"
    for _ in range(2):
        keys.delete(found.key for found in list(keys.found("copy/")))
    keys.delete([])
    assert list(keys.found("copy/")) == []
    with pytest.raises(FileNotFoundError, match="missing"):
        keys.copy("missing", "copy/x", 1, nothing)
    with pytest.raises(FileNotFoundError, match="missing"):
        keys.get("missing")


def test_keys_have_conditions(keys: Keys) -> None:
    first = keys.put("c", b"1", None)
    for after in (None, '"other"'):
        with pytest.raises(Conflict):
            keys.put("c", b"2", after)
    assert keys.put("c", b"2", first) != first
    assert keys.get("c").data == b"2"
    with pytest.raises(Conflict):
        keys.put("missing", b"3", first)


def test_large_objects_are_copied_in_parts_and_half_a_copy_is_given_up(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3keys, "WHOLE_COPY_MAX_BYTES", 5 << 20)
    keys, data = S3Keys("firesteel", access(url)), bytes(range(256)) * (44 << 10)
    keys.write("large", data)
    checks: list[int] = []
    keys.copy("large", "copied", len(data), lambda: checks.append(1))
    assert keys.get("copied").data == data
    assert len(checks) >= 3

    def lost() -> None:
        raise LeaseLost

    with pytest.raises(LeaseLost):
        keys.copy("large", "never", len(data), lost)
    client = keys._client
    for key in ("up/mine-1/x", "up/other/x", "upper"):
        client.create_multipart_upload(Bucket="firesteel", Key=key)
    keys.abort_uploads("up/", "mine-1")
    left = client.list_multipart_uploads(Bucket="firesteel")["Uploads"]
    assert [each["Key"] for each in left] == ["up/other/x", "upper"]
    keys.abort_uploads("up")
    assert "never" not in [each.key for each in keys.found("")]


def test_rows_are_counted_by_the_ends_of_files(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objectdirectories, "END_BYTES", 1_000)
    data, store = io.BytesIO(), ObjectSinks(keys)
    pyarrow.parquet.write_table(pyarrow.table({"id": range(10_000)}), data)
    for name in ("x", "y"):
        keys.write(f"f/{name}.parquet", data.getvalue())
    ends = functools.partial(store.end_of, "s3://firesteel/f")
    assert len(ends("x.parquet").read()) == 1_000 < len(data.getvalue())
    assert footers.rows_of(ends, ["x.parquet", "y.parquet"]) == 20_000
    monkeypatch.setattr(objectdirectories, "END_BYTES", 100)
    assert footers.rows_of(ends, ["x.parquet"]) == -1, "not all of the footer"


@pytest.fixture
def hanging() -> Iterator[str]:
    """A server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def refused_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


def test_trouble_is_one_sentence_in_seconds(url: str, hanging: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3keys, "SILENCE_LIMIT_S", 0.2)
    target, staging = "s3a://firesteel/out", "s3://firesteel/.firesteel-staging/j/0-0/0"
    for where, says in (
        (hanging, f"s3://firesteel/out: {hanging} does not answer .Read timeout.*; is s3.endpoint right"),
        (refused_port(), "s3://firesteel/out: .* does not answer .*; is s3.endpoint right"),
    ):
        begun = time.monotonic()
        with pytest.raises(OSError, match=says) as caught:
            ObjectSinks(S3Keys("firesteel", access(where))).prepare(target, staging)
        assert "\n" not in str(caught.value)
        assert time.monotonic() - begun < 60
    monkeypatch.setattr(s3keys, "SILENCE_LIMIT_S", 60.0)
    with pytest.raises(Unusable, match=r"s3://absent/x: .* says NoSuchBucket: there is no such bucket: make it"):
        S3Keys("absent", access(url)).write("x", b"")


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("InvalidAccessKeyId", "the access key is unknown there: set s3.access-key and s3.secret-key"),
        ("SignatureDoesNotMatch", "the secret key is wrong"),
        ("AccessDenied", "these credentials may not do this there: grant it"),
    ],
)
def test_what_a_server_says_has_a_way_out(url: str, code: str, says: str) -> None:
    error = S3Keys("b", access(url))._told("k", {"Error": {"Code": code, "Message": "no"}})
    assert isinstance(error, Unusable)
    assert str(error).startswith(f"s3://b/k: {url} says {code}: {says}")
    assert "secret'" not in repr(access(url))


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "boto3", None)
    with pytest.raises(TargetRefused, match=r"^s3://bucket needs .* -m pip install boto3"):
        S3Keys("bucket", S3Access("", "", "a key that was never used", "its secret", "", False))


def test_a_lock_is_taken_over_when_it_is_not_renewed_and_not_before() -> None:
    keys, mine, other = FakeKeys(), Time(), Time()
    with Lease(keys, "a.lock", "first", clock=mine.clock, wait=mine.wait) as lease:
        lease.check()
        mine.now = LEASE_S - 0.1
        lease.check()
        mine.now = LEASE_S
        with pytest.raises(LeaseLost, match=r"s3://bucket/a.lock is no longer this worker's"):
            lease.check()
        with Lease(keys, "a.lock", "second", clock=other.clock, wait=other.wait) as second:
            assert LEASE_S <= other.now < LEASE_S * 1.1
            second.check()
        assert keys.contents == {}, "released"
    with Lease(keys, "a.lock", "third", clock=other.clock, wait=other.wait):
        assert other.now < LEASE_S * 1.1, "at once"


def test_who_waits_long_for_a_lock_says_so() -> None:
    keys, other = FakeKeys(), Time()

    def renewed(seconds: float) -> None:
        other.wait(seconds)
        keys.write("a.lock", f"first {other.now}".encode())

    keys.write("a.lock", b"first")
    with (
        pytest.raises(TargetBusy, match=r"^another commit holds s3://bucket/a.lock$"),
        Lease(keys, "a.lock", "second", clock=other.clock, wait=renewed),
    ):
        raise AssertionError("it is held")
    assert other.now >= LEASE_S * 2, "longer than a takeover takes"


def test_a_lock_that_is_renewed_keeps_others_waiting() -> None:
    """With real time: a renewal whose answer is lost is no renewal by somebody else."""

    class Forgetful(FakeKeys):
        puts = 0

        def put(self, name: str, data: bytes, after: str | None) -> str:
            tag = super().put(name, data, after)
            self.puts += 1
            if self.puts % 2:
                raise OSError("the answer is lost")
            return tag

    keys, order = Forgetful(), []

    def wait_for_it() -> None:
        with Lease(keys, "a.lock", "second", lease_s=1.0):
            order.append("second")

    with Lease(keys, "a.lock", "first", lease_s=1.0) as lease:
        waiting = threading.Thread(target=wait_for_it)
        waiting.start()
        waiting.join(1.7)
        lease.check()
        order.append("first")
    waiting.join()
    assert order == ["first", "second"]
