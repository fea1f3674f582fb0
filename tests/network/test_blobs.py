"""Blobs over the network: whole and right, or not at all."""

import asyncio
import contextlib
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest

from firesteel.adapters.blob.local import BlobMissing, LocalBlobStore
from firesteel.adapters.blob.remote import RemoteBlobs
from firesteel.adapters.blob.server import BLOBS, BlobServer
from firesteel.adapters.rpc.server import PeerServer
from firesteel.adapters.rpc.settings import network_settings
from firesteel.adapters.rpc.stream import PeerStream
from firesteel.model.options import Configuration
from tests.network.peers import HOST, LIMIT_S

LARGE = bytes(range(256)) * 40_000
LIMIT = len(LARGE)


class Blobs:
    """A server's store, and a worker's cache that is filled from it."""

    def __init__(self, directory: Path, options: Mapping[str, str] | None) -> None:
        self.directory = directory
        self.settings = network_settings(Configuration(options), "node")
        self.store, self.cache = LocalBlobStore(directory / "store"), LocalBlobStore(directory / "cache")
        self.server = PeerServer(self.settings, {BLOBS: BlobServer(self.store, LIMIT).serve})

    async def start(self) -> None:
        port = await self.server.listen(HOST, 0)
        self.remote = RemoteBlobs(self.cache, (HOST, port), self.settings, LIMIT)

    def put(self, data: bytes) -> str:
        source = self.directory / "source"
        source.write_bytes(data)
        return self.store.put(source)

    def cached(self) -> list[str]:
        return [path.name for path in (self.directory / "cache").iterdir()]


@contextlib.asynccontextmanager
async def blobs(directory: Path, options: Mapping[str, str] | None = None) -> AsyncIterator[Blobs]:
    made = Blobs(directory, options)
    await made.start()
    yield made
    await made.server.close()


def test_what_a_script_prints_grows_at_the_master(tmp_path: Path) -> None:
    async def story() -> None:
        async with blobs(tmp_path) as it:
            job = "ab" * 16
            for offset, data in (
                (0, b"one\n"),
                (4, b"two\n"),
                (4, b"two\n"),
                (8, b"\xff"),
            ):  # the second answer was lost
                await it.remote.append_output(job, "0.stdout", offset, data)
            assert await it.store.outputs.read(job, "0.stdout", 4) == b"two\n\xff"
            assert await it.store.outputs.read(job, "0.stderr", 0) == b""
            it.remote.tries_max = 1
            for job_id, name in (("../" * 10 + "ab", "0.stdout"), (job, "../../0.stdout"), (job, "0.log")):
                with pytest.raises(OSError, match="is no output of a script"):
                    await it.remote.append_output(job_id, name, 0, b"x")
            await it.store.outputs.delete(job)
            await it.store.outputs.delete(".")
            assert list((tmp_path / "store" / "outputs").iterdir()) == []

    asyncio.run(story())


def test_blobs_are_fetched_once_and_let_go(tmp_path: Path) -> None:
    async def story() -> None:
        async with blobs(tmp_path) as it:
            names = {it.put(data): data for data in (LARGE, b"", b"small")}
            fetched = await asyncio.gather(*(it.remote.fetch(name) for name in (*names, *names)))
            for name, path in zip((*names, *names), fetched, strict=True):
                assert path.read_bytes() == names[name]
            assert sorted(it.cached()) == sorted(names)
            for name in names:
                it.store.delete(name)
                await it.remote.fetch(name)  # it is here
                await it.remote.let_go(name)
            assert it.cached() == []

    asyncio.run(story())


def test_blobs_are_put_and_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firesteel.adapters.blob.remote.RETRY_S", 0.01)

    async def story() -> None:
        async with blobs(tmp_path) as it:
            made = tmp_path / "made"
            for data in (LARGE, b""):
                made.write_bytes(data)
                name = hashlib.sha256(data).hexdigest()
                await asyncio.gather(*(it.remote.keep(made, name) for _ in range(3)))
                assert it.store.path(name).read_bytes() == data
                for _ in range(2):
                    await it.remote.drop(name)
                with pytest.raises(BlobMissing):
                    it.store.path(name)
            await it.remote.drop("../../etc/passwd")
            for data, name in ((b"other", "0" * 64), (b"path", "../x"), (LARGE + b"x", "0" * 64)):
                made.write_bytes(data)
                with pytest.raises(OSError, match="did not take blob"):
                    await it.remote.keep(made, name)
            assert list((tmp_path / "store").iterdir()) == []

    asyncio.run(story())


@pytest.mark.parametrize("name", ["0" * 64, "../../etc/passwd", "", "x" * 1_000])
def test_what_is_not_there_is_missing(tmp_path: Path, name: str) -> None:
    async def story() -> None:
        async with blobs(tmp_path) as it:
            with pytest.raises(BlobMissing):
                await it.remote.fetch(name)
            assert it.cached() == []

    asyncio.run(story())


def test_a_blob_with_other_bytes_than_its_name_says_or_too_many_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firesteel.adapters.blob.remote.RETRY_S", 0.01)
    asked, sent = [], BlobServer._send

    async def note(self: BlobServer, stream: PeerStream, sha256: str) -> None:
        asked.append(sha256)
        await sent(self, stream, sha256)

    monkeypatch.setattr(BlobServer, "_send", note)

    async def story() -> None:
        async with blobs(tmp_path) as it:
            name = it.put(b"right")
            (tmp_path / "store" / name).write_bytes(b"wrong")
            with pytest.raises(OSError, match=hashlib.sha256(b"wrong").hexdigest()):
                await it.remote.fetch(name)
            large = it.put(LARGE + b"x")
            with pytest.raises(OSError, match=r"blob.size.max"):
                await it.remote.fetch(large)
            assert asked.count(large) == 1, "it is as large the next time"
            assert it.cached() == []

    asyncio.run(story())


def test_a_store_that_takes_long_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than a connection may be silent: what is done meanwhile is done once."""
    done = []

    def slow(work: Callable[..., object]) -> Callable[..., object]:
        def slowed(*arguments: object) -> object:
            time.sleep(1.5)
            done.append(work.__name__)
            return work(*arguments)

        return slowed

    async def story() -> None:
        options = {"rpc.keep-alive.interval": "50 ms", "rpc.keep-alive.timeout": "1 s"}
        async with blobs(tmp_path, options) as it:
            for name in ("put", "path", "delete"):
                monkeypatch.setattr(it.store, name, slow(getattr(it.store, name)))
            it.remote.tries_max = 1
            made = tmp_path / "made"
            made.write_bytes(LARGE)
            name = hashlib.sha256(LARGE).hexdigest()
            await it.remote.keep(made, name)
            assert (await it.remote.fetch(name)).read_bytes() == LARGE
            await it.remote.drop(name)
            assert done == ["put", "path", "delete"]

    asyncio.run(story())


def test_a_server_that_falls_silent_is_told_as_such(tmp_path: Path) -> None:
    async def silent(stream: PeerStream) -> None:
        await asyncio.sleep(LIMIT_S)

    async def story() -> None:
        async with blobs(tmp_path, {"rpc.keep-alive.timeout": "100 ms"}) as it:
            it.remote.tries_max = 1
            server = PeerServer(it.settings, {BLOBS: silent})
            it.remote.server = (HOST, await server.listen(HOST, 0))
            with pytest.raises(OSError, match="did not drop blob 0: TimeoutError"):
                await it.remote.drop("0")
            await server.close()

    asyncio.run(story())


def test_a_server_that_goes_and_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fetch that is interrupted begins again; one that nobody answers says whom it asked."""
    monkeypatch.setattr("firesteel.adapters.blob.remote.RETRY_S", 0.01)

    async def story() -> None:
        async with blobs(tmp_path) as it:
            name, sent = it.put(LARGE), BlobServer._send
            failures = [1, 1]

            async def fail(self: BlobServer, stream: object, sha256: str) -> None:
                if failures:
                    failures.pop()
                    raise ConnectionResetError("cut")
                await sent(self, stream, sha256)  # type: ignore[arg-type]

            monkeypatch.setattr(BlobServer, "_send", fail)
            async with asyncio.timeout(LIMIT_S):
                assert (await it.remote.fetch(name)).read_bytes() == LARGE
            await it.server.close()
            with pytest.raises(OSError, match=HOST):
                await it.remote.fetch("0" * 64)

    asyncio.run(story())
