"""The blob store and the artifact cache."""

import asyncio
import hashlib
import zipfile
from pathlib import Path

import pytest

from firesteel.adapters.blob import artifacts
from firesteel.adapters.blob.artifacts import ArtifactCache
from firesteel.adapters.blob.local import BlobCorrupt, BlobMissing, LocalBlobStore
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import Artifact
from firesteel.runtime.ports import TaskFailedError


def packed(blobs: LocalBlobStore, root: Path, text: str) -> Artifact:
    path = root / "code.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("package/module.py", text)
        archive.writestr("../outside.py", "no")
    return Artifact(name="code", kind="code", sha256=blobs.put(path), size_bytes=path.stat().st_size)


def test_blobs_are_named_by_content(tmp_path: Path) -> None:
    blobs = LocalBlobStore(tmp_path / "blobs")
    (tmp_path / "a").write_bytes(b"content")
    name = blobs.put(tmp_path / "a")
    assert name == hashlib.sha256(b"content").hexdigest()
    assert blobs.put(tmp_path / "a", name) == name
    assert blobs.path(name).read_bytes() == b"content"
    with pytest.raises(BlobCorrupt):
        blobs.put(tmp_path / "a", "0" * 64)
    for _ in range(2):
        blobs.delete(name)
    for missing in (name, "../a", ""):
        with pytest.raises(BlobMissing):
            blobs.path(missing)
    assert list((tmp_path / "blobs").iterdir()) == []


def test_code_is_unpacked_once_and_kept_for_the_next_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "MAX_UNUSED", 1)
    blobs = LocalBlobStore(tmp_path / "blobs")
    cache = ArtifactCache(tmp_path / "cache", blobs)
    first, second = (packed(blobs, tmp_path, text) for text in ("a = 1", "a = 2"))

    async def story() -> None:
        both = await asyncio.gather(cache.use(JobID("1"), [first]), cache.use(JobID("2"), [first]))
        assert both[0] == both[1]
        (directory,) = both[0].directories
        assert (Path(directory) / "package" / "module.py").read_text() == "a = 1"
        assert zipfile.is_zipfile(both[0].archives[0])
        assert not (tmp_path / "outside.py").exists()
        await cache.use(JobID("2"), [second])
        await cache.release(JobID("1"))
        assert Path(directory).exists()
        await cache.release(JobID("2"))
        assert not Path(directory).exists()
        with pytest.raises(TaskFailedError, match="is not there any more"):
            await cache.use(JobID("3"), [Artifact(name="x", kind="code", sha256="0" * 64, size_bytes=1)])

    asyncio.run(story())
