"""An upload: a body of several parts (multipart/form-data, RFC 7578), read from its files while it is sent."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec

CHUNK_BYTES = 1 << 18


class Part(msgspec.Struct, frozen=True):
    """A field of a form; with a `file_name`, a file."""

    name: str
    content: bytes | Path
    kind: str = "application/json"
    file_name: str = ""

    @property
    def size(self) -> int:
        return len(self.content) if isinstance(self.content, bytes) else self.content.stat().st_size


class Multipart:
    """May be sent again: files are opened anew."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._boundary = uuid.uuid4().hex
        self._parts = [(self._head(part), part) for part in parts]
        self._end = f"--{self._boundary}--\r\n".encode()

    @property
    def kind(self) -> str:
        """The Content-Type."""
        return f"multipart/form-data; boundary={self._boundary}"

    @property
    def size(self) -> int:
        """Size in bytes. Raises OSError."""
        return sum(len(head) + part.size + len(b"\r\n") for head, part in self._parts) + len(self._end)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Pieces of the body; small ones travel together. Raises OSError."""
        waiting = bytearray()
        for head, part in self._parts:
            waiting += head
            if isinstance(part.content, bytes):
                waiting += part.content
            else:
                with part.content.open("rb") as file:
                    while data := await asyncio.to_thread(file.read, CHUNK_BYTES):
                        waiting += data
                        if len(waiting) >= CHUNK_BYTES:
                            yield bytes(waiting)
                            waiting.clear()
            waiting += b"\r\n"
        yield bytes(waiting + self._end)

    def _head(self, part: Part) -> bytes:
        names = f'name="{part.name}"' + (f'; filename="{part.file_name}"' if part.file_name else "")
        lines = (f"--{self._boundary}", f"Content-Disposition: form-data; {names}", f"Content-Type: {part.kind}")
        return "".join(f"{line}\r\n" for line in (*lines, "")).encode()
