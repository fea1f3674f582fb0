"""Blobs of a store of objects for workers, at a master that has none of them yet: it has just taken over."""

import asyncio
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from firesteel.adapters.blob.local import LocalBlobStore
from firesteel.adapters.blob.objects import ObjectBlobStore
from firesteel.adapters.blob.remote import RemoteBlobs
from firesteel.adapters.blob.server import BLOBS, BlobServer
from firesteel.adapters.ha.objectregister import ObjectRegister
from firesteel.adapters.rpc.server import PeerServer
from firesteel.adapters.rpc.settings import network_settings
from firesteel.model.options import Configuration
from tests.durable.contenders import record
from tests.durable.objects import FakeObjects
from tests.network.peers import HOST, LIMIT_S
from tests.network.processes import until

LIMIT = 1 << 20
LOOP_THREADS = 2
"""Threads that the loop's own executor has."""


@dataclass
class SlowObjects(FakeObjects):
    """Downloads take until `may_end` is set; `downloads` has the names."""

    downloads: list[str] = field(default_factory=list)
    may_end: threading.Event = field(default_factory=threading.Event)

    def download(self, name: str, target: Path) -> None:
        self.downloads.append(name)
        assert self.may_end.wait(LIMIT_S)
        super().download(name, target)


def test_a_leader_signs_while_workers_wait_for_blobs(tmp_path: Path) -> None:
    """More of them than there are threads; what several ask for is downloaded once."""
    objects = SlowObjects(random.Random(1))
    (tmp_path / "source").write_bytes(b"code")
    name = ObjectBlobStore(objects, LocalBlobStore(tmp_path / "former")).put(tmp_path / "source")
    store = ObjectBlobStore(objects, LocalBlobStore(tmp_path / "cache"))
    settings = network_settings(Configuration(), "node")

    async def story() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(LOOP_THREADS))
        register = ObjectRegister(objects, "leader")
        epoch = await register.claim(record("a"), 0)
        assert epoch is not None
        asked = 0

        class Counted(BlobServer):
            async def _send(self, stream: object, sha256: str) -> None:
                nonlocal asked
                asked += 1
                await super()._send(stream, sha256)  # type: ignore[arg-type]

        server = PeerServer(settings, {BLOBS: Counted(store, LIMIT).serve})
        port = await server.listen(HOST, 0)
        caches = [LocalBlobStore(tmp_path / f"worker-{number}") for number in range(LOOP_THREADS + 1)]
        workers = [RemoteBlobs(cache, (HOST, port), settings, LIMIT) for cache in caches]
        async with asyncio.TaskGroup() as fetching:
            fetched = [fetching.create_task(worker.fetch(name)) for worker in workers]

            async def all_wait() -> bool:
                return asked == len(workers) and bool(objects.downloads)

            await until(all_wait)
            try:
                async with asyncio.timeout(5):
                    assert await register.touch(epoch)
            finally:
                objects.may_end.set()
        assert [(await each).read_bytes() for each in fetched] == [b"code"] * len(workers)
        await server.close()

    asyncio.run(story())
    assert objects.downloads == [f"blobs/{name}"]
