"""Blobs of jobs that are being submitted, while those of other jobs are deleted."""

import asyncio
import hashlib
import threading
from pathlib import Path

import pytest

from firesteel.adapters.blob.local import BlobMissing, LocalBlobStore
from firesteel.adapters.blob.uploads import BlobUploads
from firesteel.model.refusals import StorageFull


class SlowlyDeleting(LocalBlobStore):
    """Deletes once `may_go` is set; `goes` is set when it begins."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.goes, self.may_go = threading.Event(), threading.Event()

    def delete(self, sha256: str) -> None:
        self.goes.set()
        assert self.may_go.wait(30)
        super().delete(sha256)


def file(directory: Path, text: str) -> tuple[str, Path]:
    path = directory / text
    path.write_text(text)
    return hashlib.sha256(text.encode()).hexdigest(), path


def test_a_submission_that_is_cancelled_while_blobs_are_deleted_leaves_nothing_in_use(tmp_path: Path) -> None:
    async def story() -> None:
        blobs = SlowlyDeleting(tmp_path / "blobs")
        uploads = BlobUploads(blobs)
        (old, old_path), (new, new_path) = file(tmp_path, "old"), file(tmp_path, "new")
        blobs.put(old_path)
        is_put, may_end = asyncio.Event(), asyncio.Event()

        async def submit() -> None:
            async with uploads.put({new: new_path}):
                is_put.set()
                await may_end.wait()

        submission = asyncio.ensure_future(submit())
        await is_put.wait()
        deletion = asyncio.ensure_future(uploads.delete_unused([old, new], tuple))
        await asyncio.to_thread(blobs.goes.wait, 30)
        may_end.set()
        for _ in range(3):
            await asyncio.sleep(0)
        submission.cancel()
        await asyncio.wait({submission})
        blobs.may_go.set()
        await deletion
        assert blobs.path(new).read_text() == "new", "its job may have been stored since, and nobody was asked again"
        await uploads.delete_unused([new], tuple)
        with pytest.raises(BlobMissing):
            blobs.path(new)
        assert not uploads._in_use, "it would grow by each artifact that was ever submitted"

    asyncio.run(story())


def test_returned_rows_are_taken_beyond_the_limit_and_keep_further_jobs_out(tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    rows.write_bytes(bytes((1 << 20) + 1))
    blobs = LocalBlobStore(tmp_path / "blobs")
    uploads = BlobUploads(blobs, max_bytes=1 << 20)
    code, code_path = file(tmp_path, "code")

    async def story() -> None:
        await blobs.keep(rows, hashlib.sha256(rows.read_bytes()).hexdigest())
        with pytest.raises(StorageFull, match="artifacts and returned rows of known jobs take 1048577 bytes"):
            async with uploads.put({code: code_path}):
                pass

    asyncio.run(story())
