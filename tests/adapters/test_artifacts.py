"""The artifact cache, where several jobs want something of it at once."""

import asyncio
import zipfile
from pathlib import Path

import msgspec
import pytest

from firesteel.adapters.blob import artifacts
from firesteel.adapters.blob.artifacts import ArtifactCache
from firesteel.adapters.blob.local import LocalBlobStore
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import Artifact
from firesteel.runtime.ports import TaskFailedError

A_WHILE_S = 0.5
"""Time for what waits for something, or has been done long before."""


class SlowBlobs(LocalBlobStore):
    """Blobs of a master, of which some are on their way until `arrived` is set."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.slow: set[str] = set()
        self.arrived = asyncio.Event()
        self.goes = asyncio.Event()
        """Set once one begins to be deleted; it takes until `gone` is set."""
        self.gone = asyncio.Event()
        self.gone.set()
        self._at_master: dict[str, bytes] = {}
        """What was deleted here, and is fetched again."""

    async def fetch(self, sha256: str) -> Path:
        if sha256 in self.slow:
            await self.arrived.wait()
        if sha256 in self._at_master:
            Path(self._directory, sha256).write_bytes(self._at_master[sha256])
        return await super().fetch(sha256)

    async def let_go(self, sha256: str) -> None:
        self.goes.set()
        await self.gone.wait()
        self._at_master[sha256] = self.path(sha256).read_bytes()
        self.delete(sha256)


def code(blobs: LocalBlobStore, size_bytes: int, letter: str) -> Artifact:
    """Takes so many bytes unpacked, and hardly any packed."""
    path = blobs.new_file()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("module.py", letter * size_bytes)
    return Artifact(name="code", kind="code", sha256=taken(blobs, path), size_bytes=1)


def pickle(blobs: LocalBlobStore, text: str) -> Artifact:
    path = blobs.new_file()
    path.write_text(text)
    return Artifact(name="pipeline", kind="pickle", sha256=taken(blobs, path), size_bytes=len(text))


def taken(blobs: LocalBlobStore, path: Path) -> str:
    sha256 = blobs.put(path)
    path.unlink()
    return sha256


def test_a_job_keeps_its_code_while_another_one_is_too_big(tmp_path: Path) -> None:
    """That is known before all of the other's artifacts have come."""

    async def story() -> None:
        blobs = SlowBlobs(tmp_path / "blobs")
        cache = ArtifactCache(tmp_path / "cache", blobs, 1 << 20)
        small, big, late = code(blobs, 400_000, "a"), code(blobs, 900_000, "b"), pickle(blobs, "late")
        blobs.slow.add(late.sha256)
        runs, grows = JobID("1"), JobID("2")
        (directory,) = (await cache.use(runs, [small])).directories
        too_big = asyncio.ensure_future(cache.use(grows, [big, late]))
        await asyncio.wait({too_big}, timeout=A_WHILE_S)
        next_attempt = asyncio.ensure_future(cache.use(runs, [small]))
        await asyncio.wait({next_attempt}, timeout=A_WHILE_S)
        blobs.arrived.set()
        with pytest.raises(TaskFailedError, match=r"artifact-cache\.max-size"):
            await too_big
        assert (await next_attempt).directories == (directory,)
        assert Path(directory).is_dir()
        assert not Path(tmp_path, "cache", big.sha256).exists()

    asyncio.run(story())


def test_a_job_that_wants_too_much_keeps_what_it_has(tmp_path: Path) -> None:
    async def story() -> None:
        blobs = LocalBlobStore(tmp_path / "blobs")
        cache = ArtifactCache(tmp_path / "cache", blobs, 1 << 20)
        small, big = code(blobs, 400_000, "a"), code(blobs, 900_000, "b")
        (directory,) = (await cache.use(JobID("1"), [small])).directories
        with pytest.raises(TaskFailedError, match=r"artifact-cache\.max-size"):
            await cache.use(JobID("1"), [small, big])
        assert Path(directory).is_dir()
        assert not Path(tmp_path, "cache", big.sha256).exists()

    asyncio.run(story())


def test_what_nobody_uses_is_not_deleted_once_a_job_has_been_given_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifacts, "MAX_UNUSED", 0)

    async def story() -> None:
        blobs = SlowBlobs(tmp_path / "blobs")
        cache = ArtifactCache(tmp_path / "cache", blobs, 1 << 20)
        blobs.gone.clear()
        one, two = pickle(blobs, "one"), pickle(blobs, "two")
        await cache.use(JobID("1"), [one, two])
        release = asyncio.ensure_future(cache.release(JobID("1")))
        await blobs.goes.wait()
        use = asyncio.ensure_future(cache.use(JobID("2"), [two]))
        await asyncio.wait({use}, timeout=A_WHILE_S)
        blobs.gone.set()
        await release
        assert Path((await use).pickles[0]).read_text() == "two"

    asyncio.run(story())


def test_nothing_stays_of_what_can_not_be_unpacked(tmp_path: Path) -> None:
    """Unless another job has the same bytes as a file."""

    async def story() -> None:
        blobs = SlowBlobs(tmp_path / "blobs")
        cache = ArtifactCache(tmp_path / "cache", blobs, 1 << 20)
        text = pickle(blobs, "no archive")
        bad = msgspec.structs.replace(text, kind="code")
        with pytest.raises(TaskFailedError, match="can't be unpacked"):
            await cache.use(JobID("1"), [bad])
        assert list((tmp_path / "cache").iterdir()) == list((tmp_path / "blobs").iterdir()) == []
        (path,) = (await cache.use(JobID("2"), [text])).pickles
        with pytest.raises(TaskFailedError, match="can't be unpacked"):
            await cache.use(JobID("1"), [bad])
        assert Path(path).read_text() == "no archive"

    asyncio.run(story())
