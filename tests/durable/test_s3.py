"""What outlives the masters is in a bucket: the store's conditions hold, and masters take over from one another."""

import asyncio
import hashlib
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from firesteel.adapters.blob.local import BlobCorrupt, BlobMissing, LocalBlobStore
from firesteel.adapters.blob.objects import PART_BYTES, ObjectBlobStore
from firesteel.adapters.ha.objectdirectory import ObjectDirectory
from firesteel.adapters.ha.objectregister import ObjectRegister
from firesteel.adapters.ha.storage import configured_storage
from firesteel.adapters.storage.errors import Unusable
from firesteel.adapters.storage.files import DirectoryFiles, Files, ObjectFiles
from firesteel.adapters.storage.objects import Conflict, Objects, check_conditions, put_once
from firesteel.adapters.storage.s3 import S3Objects
from firesteel.model.jobgraph import Artifact
from firesteel.model.options import Configuration, ConfigurationError
from firesteel.model.states import JobStatus
from firesteel.runtime.register import LeaderRecord
from tests.durable.masters import Master, site
from tests.durable.objects import FakeObjects
from tests.durable.s3 import s3_options, s3_server
from tests.durable.test_standby import LIMIT_S, get
from tests.rest.cluster import graph
from tests.runtime.cluster import FIXED_DELAY

FAR_MS = 1 << 50

LARGE = bytes(range(256)) * 25_000
"""More than one part of an upload."""


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3_server(tmp_path_factory.mktemp("s3")) as url:
        yield url


@pytest.fixture(params=["memory", "s3"])
def objects(request: pytest.FixtureRequest, s3: str) -> Objects:
    """The store of the tests, which has to be like the real one."""
    if request.param == "memory":
        return FakeObjects(random.Random(0))
    settings = {"endpoint": s3, "region": "us-east-1", "access_key_id": "key", "secret_access_key": "secret"}
    return S3Objects("firesteel", f"{request.node.name}/", settings)


def test_objects_have_conditions(objects: Objects, tmp_path: Path) -> None:
    check_conditions(objects)
    assert objects.files() == [], "the probe is gone"
    first = objects.put("a", b"1", None)
    for after in (None, '"other"'):
        with pytest.raises(Conflict, match="a"):
            objects.put("a", b"2", after)
    second = objects.put("a", b"2", first)
    with pytest.raises(Conflict):
        objects.put("a", b"3", first)
    with pytest.raises(Conflict):
        objects.put("missing", b"3", first)
    assert objects.get("a").data == b"2"
    assert put_once(objects, "a", b"2", first) == second, "the answer was lost, and it was done"
    objects.put("below/a", b"", None)
    objects.put("below/b/c", b"", None)
    assert (objects.files(), objects.files("below/")) == (["a"], ["a"])
    assert [each.name for each in objects.listed("below/")] == ["below/a", "below/b/c"]
    (tmp_path / "large").write_bytes(LARGE)
    objects.upload("a", tmp_path / "large")
    objects.download("a", tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == LARGE
    for _ in range(2):
        objects.delete("a", "below/a", "below/b/c")
    assert [*objects.listed("")] == []
    with pytest.raises(FileNotFoundError, match="a"):
        objects.get("a")
    with pytest.raises(FileNotFoundError):
        objects.download("a", tmp_path / "again")


def test_files_grow_in_parts(objects: Objects) -> None:
    """Whoever opens the directory anew reads all, and goes on."""
    directory = ObjectDirectory(objects, "jobs/", part_bytes=10)
    directory.create("log", b"head")
    expected = b"head"
    for number in range(12):
        directory.append("log", b"%04d" % number)
        expected += b"%04d" % number
        if number == 7:
            directory = ObjectDirectory(objects, "jobs/", part_bytes=10)
        assert directory.read("log") == expected
    with pytest.raises(FileExistsError):
        directory.create("log", b"another")
    prepared = [directory.prepare(b"x"), directory.prepare(b"y")]
    directory.publish(prepared[1], "snapshot")
    directory.remove(prepared[0])
    assert directory.names() == ["log", "snapshot"]
    directory.remove("log")
    assert [each.name for each in objects.listed("")] == ["jobs/snapshot"]


def test_one_leads_by_the_register(objects: Objects) -> None:
    async def story() -> None:
        a, b = ObjectRegister(objects, "leader"), ObjectRegister(objects, "leader")
        mine, other = (LeaderRecord(name=name, node="here", host="h", port=1) for name in "ab")
        assert await a.newest() is None
        first = await a.claim(mine, 0)
        assert first is not None
        assert await b.claim(other, 0) is None
        seen = await b.newest()
        assert seen is not None
        assert (seen.epoch, seen.record) == (first, mine)
        assert await a.touch(first)
        alive = await b.newest()
        assert alive is not None
        assert alive.sign != seen.sign
        assert await b.claim(other, first) == first + 1
        assert not await a.touch(first)
        await a.give_up(first)
        leading = await a.newest()
        assert leading is not None
        assert (leading.record, leading.sign.moment > 0) == (other, True)
        await b.give_up(first + 1)
        gone = await a.newest()
        assert gone is not None
        assert gone.sign.moment == 0

    asyncio.run(story())


def test_blobs_are_there_for_other_masters(objects: Objects, tmp_path: Path) -> None:
    one, two = (ObjectBlobStore(objects, LocalBlobStore(tmp_path / name)) for name in ("one", "two"))
    (tmp_path / "source").write_bytes(LARGE)
    name = one.put(tmp_path / "source")
    assert name == hashlib.sha256(LARGE).hexdigest()
    assert two.path(name).read_bytes() == LARGE
    assert (one.put_before(0), one.put_before(FAR_MS)) == ([], [name])
    with pytest.raises(BlobCorrupt):
        one.put(tmp_path / "source", "0" * 64)
    for _ in range(2):
        two.delete(name)
    for missing in (name, "../a", ""):
        with pytest.raises(BlobMissing):
            two.path(missing)
    objects.upload(f"blobs/{name}", tmp_path / "source")
    (tmp_path / "other").write_bytes(b"other")
    objects.upload(f"blobs/{name}", tmp_path / "other")
    with pytest.raises(OSError, match="has SHA-256"):
        two.path(name)


@pytest.mark.parametrize("kind", ["directory", "objects"])
def test_files_are_there_for_other_masters(kind: str, objects: Objects, tmp_path: Path) -> None:
    def files(name: str) -> Files:
        shared = kind == "directory"
        return DirectoryFiles(tmp_path / "all") if shared else ObjectFiles(objects, "jars/", tmp_path / name)

    one, two = files("one"), files("two")
    assert one.names() == []
    (tmp_path / "source").write_bytes(LARGE)
    one.write("large", tmp_path / "source")
    for content in (b"first", b"second"):
        one.write("note", content)
    objects.put("jars.other", b"", None)
    assert one.names() == two.names() == ["large", "note"]
    assert (one.has("note"), two.has("note"), two.has("not")) == (True, True, False)
    assert (one.read("note"), two.read("note")) == (b"second", b"second")
    assert [each.path("large").read_bytes() for each in (one, two, two)] == [LARGE] * 3
    assert not [*tmp_path.rglob(".write-*")]
    for _ in range(2):
        two.delete("large")
    assert one.names() == ["note"]
    for missing in (two.path, two.read):
        with pytest.raises(FileNotFoundError, match="large"):
            missing("large")


def test_what_scripts_print_is_in_parts(objects: Objects, tmp_path: Path) -> None:
    async def story() -> None:
        outputs = ObjectBlobStore(objects, LocalBlobStore(tmp_path)).outputs
        job, text = "ab" * 16, LARGE[: PART_BYTES + 1_000]
        for begin in (0, 0, 100_000, 200_000, 100_000):
            await outputs.append(job, "0.stdout", begin, text[begin : begin + 100_000])
        await outputs.append(job, "0.stdout", 200_000, text[200_000:])
        read = b""
        while part := await outputs.read(job, "0.stdout", len(read)):
            read += part
        assert read == text
        assert (await outputs.jobs_before(0), await outputs.jobs_before(FAR_MS)) == ([], [job])
        for wrong in (("../x", "0.stdout"), (job, "../0.stdout")):
            with pytest.raises(FileNotFoundError):
                await outputs.append(*wrong, 0, b"x")
        await outputs.delete(job)
        assert await outputs.read(job, "0.stdout", 0) == b""

    asyncio.run(story())


class Careless(FakeObjects):
    """A store that writes whatever the condition says, as some do; or refuses to hear of conditions."""

    def __init__(self, ignored: str) -> None:
        super().__init__(random.Random(0))
        self.ignored = ignored

    def put(self, name: str, data: bytes, after: str | None) -> str:
        if self.ignored == "all":
            raise OSError("501 NotImplemented")
        if (after is None) == (self.ignored == "If-None-Match") and name in self.contents:
            after = self.contents[name].tag
        return super().put(name, data, after)


@pytest.mark.parametrize(
    ("ignored", "message"),
    [
        ("If-None-Match", "it writes an object whatever If-None-Match says"),
        ("If-Match", "it writes an object whatever If-Match says"),
        ("all", "a conditional write failed there .501 NotImplemented.*Take a store with conditional writes"),
    ],
)
def test_a_store_without_conditions_is_refused(ignored: str, message: str) -> None:
    store = Careless(ignored)
    with pytest.raises(OSError, match=message):
        check_conditions(store)
    assert store.contents == {}


@pytest.mark.parametrize(
    ("storage", "endpoint", "message"),
    [
        ("s3://", "", "names no bucket: write s3://BUCKET/PATH"),
        ("s3://bucket/x", "localhost:9000", "s3.endpoint: 'localhost:9000' is no URL like https://HOST:PORT"),
        ("gs://bucket/x", "", "is neither the absolute path of a directory that all masters share, nor s3://"),
    ],
)
def test_a_place_that_can_not_be(storage: str, endpoint: str, message: str) -> None:
    options = {"high-availability.type": "filesystem", "high-availability.storageDir": storage, "s3.endpoint": endpoint}
    with pytest.raises(ConfigurationError, match=message):
        configured_storage(Configuration(options))


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(ConfigurationError, match=r"high-availability.storageDir: .*-m pip install obstore"):
        configured_storage(Configuration(s3_options("http://localhost")))


def sentence(settings: dict[str, str], bucket: str = "firesteel") -> str:
    begun = time.monotonic()
    with pytest.raises(OSError, match=rf"^s3://{bucket}/x/") as caught:
        check_conditions(S3Objects(bucket, "x/", settings))
    assert "\n" not in str(caught.value)
    assert time.monotonic() - begun < 30
    return str(caught.value)


def test_trouble_with_a_server_is_told_with_a_way_out(s3: str, tmp_path: Path) -> None:
    """In the words that workers have, who go there with another library."""
    settings = {"region": "us-east-1", "access_key_id": "key", "secret_access_key": "secret"}
    told = sentence({**settings, "endpoint": s3}, "absent")
    assert told.endswith(f"{s3} says NoSuchBucket: there is no such bucket: make it, or correct the name")
    with s3_server(tmp_path, knows_nobody=True) as strict:
        told = sentence({**settings, "endpoint": strict})
    assert "says InvalidAccessKeyId: the access key is unknown there: set s3.access-key and s3.secret-key" in told
    told = sentence({**settings, "endpoint": strict})
    assert told.endswith(f"{strict} does not answer (error sending request); is s3.endpoint right?")
    asked = OSError("Error performing PUT http://169.254.169.254/latest/api/token in 4ms - error sending request")
    assert str(S3Objects("b", "", settings)._told("s3://b/x", asked)) == (
        "s3://b/x: there are no credentials: set s3.access-key and s3.secret-key"
    ), "the machine was asked for a role, since nothing else was said"


def test_a_bucket_that_may_only_be_read_is_told() -> None:
    class ReadOnly(FakeObjects):
        def put(self, name: str, data: bytes, after: str | None) -> str:
            raise Unusable(f"s3://bucket/{name}: it says AccessDenied: grant it")

    with pytest.raises(Unusable, match=r"AccessDenied: grant it$"):
        check_conditions(ReadOnly(random.Random(0)))


async def uploaded(master: Master) -> dict[str, Any]:
    """Its line in the list of files to be run."""
    pipeline = b"import firesteel as fs\npipeline = fs.Pipeline('kept')\n"
    base_url = f"http://127.0.0.1:{master.options['rest.port']}"
    async with httpx.AsyncClient(base_url=base_url, timeout=LIMIT_S) as http:
        answer = await http.post("/v1/jars/upload", files={"jarfile": ("kept.py", pipeline)})
        assert answer.status_code == 200, answer.text
    (jar,) = (await get(master, "/v1/jars")).json()["files"]
    return dict(jar)


def test_masters_take_over_from_a_bucket(tmp_path: Path, s3: str) -> None:
    """One is killed, then all are: the job that runs goes on, the artifacts and results are there."""

    async def story() -> None:
        code = b"print('hello')"
        artifact = Artifact(name="code.zip", kind="code", sha256=hashlib.sha256(code).hexdigest(), size_bytes=len(code))
        (tmp_path / "code").write_bytes(code)
        options = {**s3_options(s3), **FIXED_DELAY, "jobmanager.reconciliation.timeout": "1 s"}
        async with site(tmp_path, **options) as it:
            first, second = await it.start_master("first"), await it.start_master("second")
            await it.start_worker(first)
            ended = await first.run(graph("ended", "ended"))
            it.hold("lines")
            it.hold("result")
            submitted = msgspec.structs.replace(graph("lines => result", "running"), artifacts=(artifact,))
            running = await first.client.submit_job(submitted, {artifact.sha256: tmp_path / "code"})
            await it.until_attempts("ended", "lines")
            jar = await uploaded(first)
            await first.kill()
            await second.until_status(running, JobStatus.RUNNING)
            assert (await get(second, "/v1/jars")).json()["files"] == [jar]
            it.release("lines")
            await it.until_attempts("ended", "lines", "result")
            assert await second.client.request_job_result(ended.job_id) == ended
            await asyncio.gather(second.kill(), it.kill_workers())
            it.release("result")
            await first.start()
            await it.start_worker(first)
            assert (await first.client.request_job_result(running)).status is JobStatus.FINISHED
            assert await first.client.request_job_result(ended.job_id) == ended
            assert it.attempts() == ["ended", "lines", "result", "result"]
            assert not (tmp_path / "shared").exists()

    asyncio.run(story())
