"""The blob store and the artifact cache."""

import asyncio
import contextlib
import hashlib
import io
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import msgspec
import pytest

from firesteel.adapters.blob import archives, artifacts
from firesteel.adapters.blob.artifacts import ArtifactCache
from firesteel.adapters.blob.local import BlobCorrupt, BlobMissing, LocalBlobStore
from firesteel.adapters.blob.uploads import BlobUploads
from firesteel.model.failures import FailureKind
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import Artifact
from firesteel.model.refusals import StorageFull
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
    cache = ArtifactCache(tmp_path / "cache", blobs, 1 << 30)
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


def test_the_cache_is_limited_by_what_jobs_use(tmp_path: Path) -> None:
    """Code that no job uses makes room, the least recently used first; what is in use stays."""
    blobs = LocalBlobStore(tmp_path / "blobs")
    first, second, third = (packed(blobs, tmp_path, f"a = '{letter * 200_000}'") for letter in "xyz")

    async def story() -> None:
        cache = ArtifactCache(tmp_path / "cache", blobs, 1 << 20)
        (old,) = (await cache.use(JobID("1"), [first])).directories
        await cache.release(JobID("1"))
        (kept,) = (await cache.use(JobID("2"), [second])).directories
        assert Path(old).exists()
        await cache.use(JobID("3"), [third])
        assert not Path(old).exists()
        with pytest.raises(TaskFailedError, match=r"artifact-cache.max-size allows 1 MiB: raise it"):
            await cache.use(JobID("4"), [first])
        assert not Path(old).exists()
        assert Path(kept).exists()
        await cache.release(JobID("3"))
        await cache.use(JobID("4"), [first])
        assert Path(old).exists()

    asyncio.run(story())


def test_a_full_blob_store_refuses_further_jobs(tmp_path: Path) -> None:
    blobs = LocalBlobStore(tmp_path / "blobs")
    uploads = BlobUploads(blobs, max_bytes=1 << 20)
    files = {}
    for letter in b"ab":
        content = bytes([letter]) * 700_000
        files[hashlib.sha256(content).hexdigest()] = path = tmp_path / chr(letter)
        path.write_bytes(content)
    first, second = files

    async def put(sha256: str) -> None:
        async with uploads.put({sha256: files[sha256]}):
            pass

    async def story() -> None:
        await put(first)
        await put(first)
        with pytest.raises(StorageFull, match=r"blob.storage.max-size allows 1 MiB. Nothing was submitted: wait"):
            await put(second)
        await uploads.delete_unused([first], tuple)
        await put(second)

    asyncio.run(story())


def archive(blobs: LocalBlobStore, root: Path, name: str, *members: tarfile.TarInfo) -> Artifact:
    """Of the given members, and a file bin/tool."""
    path = root / "packed"
    with tarfile.open(path, "w:gz") as tar:
        tool = tarfile.TarInfo("bin/tool")
        tool.size, tool.mode = 4, 0o755
        tar.addfile(tool, io.BytesIO(b"tool"))
        for member in members:
            tar.addfile(member)
    return Artifact(name=name, kind="archive", sha256=blobs.put(path), size_bytes=path.stat().st_size)


def test_files_and_archives_are_ready_for_working_directories(tmp_path: Path) -> None:
    blobs = LocalBlobStore(tmp_path / "blobs")
    cache = ArtifactCache(tmp_path / "cache", blobs, 1 << 30)
    env = archive(blobs, tmp_path, "env.tar.gz#env")
    again = msgspec.structs.replace(env, name="env.tar.gz", kind="file")  # equal content, for another purpose

    async def story() -> None:
        packed, unpacked = (await cache.use(JobID("1"), [again, env])).placed
        assert (packed.target, packed.archive) == ("env.tar.gz", "")
        assert stat.S_IMODE(os.stat(packed.path).st_mode) == 0o444
        assert (unpacked.target, tarfile.is_tarfile(unpacked.archive)) == ("env", True)
        assert unpacked.archive.endswith(".tar.gz")
        tool = Path(unpacked.path, "bin", "tool")
        assert (tool.read_text(), os.access(tool, os.X_OK)) == ("tool", True)

    asyncio.run(story())


def test_an_environment_keeps_the_link_to_its_interpreter(tmp_path: Path) -> None:
    """As `venv-pack` makes one. It is made last, so that nothing is written by way of it."""
    blobs = LocalBlobStore(tmp_path / "blobs")
    cache = ArtifactCache(tmp_path / "cache", blobs, 1 << 30)
    link, below = tarfile.TarInfo("bin/python"), tarfile.TarInfo("bin/python/below")
    link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()

    async def story() -> None:
        (placed,) = (await cache.use(JobID("1"), [archive(blobs, tmp_path, "env.tgz", link)])).placed
        assert Path(placed.path, "bin", "python").readlink() == tmp_path / "elsewhere"
        with contextlib.suppress(TaskFailedError):
            await cache.use(JobID("2"), [archive(blobs, tmp_path, "bad.tgz", link, below)])

    asyncio.run(story())
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_an_archive_that_leads_out_fails_its_job_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs = LocalBlobStore(tmp_path / "blobs")
    cache = ArtifactCache(tmp_path / "cache", blobs, 1 << 30)
    link = tarfile.TarInfo("link")
    link.type, link.linkname = tarfile.SYMTYPE, "../../outside"
    device = tarfile.TarInfo("device")
    device.type = tarfile.CHRTYPE
    outside = tarfile.TarInfo("../outside")
    bad = [archive(blobs, tmp_path, "a.tgz", member) for member in (link, device, outside)]
    (tmp_path / "text").write_text("no archive")
    text = Artifact(name="a.zip", kind="archive", sha256=blobs.put(tmp_path / "text"), size_bytes=10)
    whole = (tmp_path / "packed").read_bytes()
    (tmp_path / "cut").write_bytes(whole[:-20])
    bad += [Artifact(name="cut.tgz", kind="archive", sha256=blobs.put(tmp_path / "cut"), size_bytes=9)]
    bad += [text, msgspec.structs.replace(text, name="a.tar")]

    async def refused(artifact: Artifact, words: str) -> None:
        with pytest.raises(TaskFailedError, match=words) as raised:
            await cache.use(JobID("1"), [artifact])
        assert raised.value.failure.kind is FailureKind.NON_RECOVERABLE

    for artifact in bad:
        asyncio.run(refused(artifact, f"{artifact.name} can't be unpacked"))
    good = archive(blobs, tmp_path, "good.tgz")
    monkeypatch.setattr(archives, "UNPACKED_BYTES_MAX", 3)
    asyncio.run(refused(good, "more than 0 GiB unpacked"))
    monkeypatch.setattr(archives, "MEMBERS_MAX", 0)
    asyncio.run(refused(good, "more than 0 members"))
    assert [path for path in (tmp_path / "cache").iterdir() if path.is_dir()] == []
    assert not (tmp_path / "outside").exists()
