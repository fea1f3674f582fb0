"""The body of an upload, as a server reads it."""

import asyncio
from pathlib import Path

import pytest
from python_multipart import parse_form

from firesteel.client.multipart import CHUNK_BYTES, Multipart, Part

LARGE = bytes(range(256)) * (3 * CHUNK_BYTES // 256)


@pytest.fixture
def upload(tmp_path: Path) -> Multipart:
    (tmp_path / "large").write_bytes(LARGE)
    (tmp_path / "empty").write_bytes(b"")
    return Multipart(
        (
            Part("request", b'{"a": 1}'),
            Part("file_0", tmp_path / "large", "application/octet-stream", "large.zip"),
            Part("file_1", tmp_path / "empty", "application/octet-stream", "empty.zip"),
        )
    )


def sent(upload: Multipart) -> list[bytes]:
    async def chunks() -> list[bytes]:
        return [chunk async for chunk in upload.chunks()]

    return asyncio.run(chunks())


def test_it_is_read_as_it_was_meant_also_when_it_is_sent_again(upload: Multipart, tmp_path: Path) -> None:
    for _ in range(2):
        body = b"".join(sent(upload))
        assert len(body) == upload.size
        (tmp_path / "body").write_bytes(body)
        fields: dict[str, bytes] = {}
        files: dict[str, tuple[str, bytes]] = {}

        def on_field(field, fields=fields) -> None:
            fields[field.field_name.decode()] = field.value

        def on_file(file, files=files) -> None:
            file.file_object.seek(0)
            files[file.field_name.decode()] = file.file_name.decode(), file.file_object.read()

        with (tmp_path / "body").open("rb") as stream:
            parse_form({"Content-Type": upload.kind.encode()}, stream, on_field, on_file)
        assert fields == {"request": b'{"a": 1}'}
        assert files == {"file_0": ("large.zip", LARGE), "file_1": ("empty.zip", b"")}


def test_large_files_are_never_in_memory_as_a_whole(upload: Multipart) -> None:
    assert max(map(len, sent(upload))) < 2 * CHUNK_BYTES


def test_a_small_upload_is_one_piece() -> None:
    assert len(sent(Multipart((Part("request", b"{}"), Part("file_0", b"{}", file_name="job-graph.json"))))) == 1
