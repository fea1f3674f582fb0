"""The files of the dashboard, as they are in the package: read once, compressed once, compared by their ETag."""

import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from firesteel.rest.compression import takes_gzip

DIRECTORY = Path(__file__).parent / "dashboard"
INDEX = "index.html"

COMPRESSED_FROM_BYTES = 1_024
"""Smaller files are sent as they are."""

CONTENT_TYPES = {
    ".css": "text/css; charset=UTF-8",
    ".html": "text/html; charset=UTF-8",
    ".js": "text/javascript; charset=UTF-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=UTF-8",
}
"""By suffix; other files are not served."""

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Nothing from elsewhere, nothing that is not a file of ours, and no page around it."""


@dataclass(frozen=True)
class StaticFile:
    """Something that says nothing of this cluster: anybody may read it."""

    content: bytes
    compressed: bytes | None
    headers: dict[str, str]

    async def serve(self, request: Request) -> Response:
        """The file; 304 for who has it already. Asked each time, so that nobody sees half of a new version."""
        if self.headers["ETag"] in _tags(request.headers.get("if-none-match", "")):
            return Response(status_code=304, headers=self.headers)
        if self.compressed is not None and takes_gzip(request):
            return Response(self.compressed, headers={**self.headers, "Content-Encoding": "gzip"})
        return Response(self.content, headers=self.headers)


def dashboard_files(directory: Path = DIRECTORY) -> dict[str, StaticFile]:
    """All of them by the path where they are served: the page itself at `/`, the others below `/dashboard/`."""
    found = {}
    for file in sorted(directory.rglob("*")):
        if file.suffix in CONTENT_TYPES and file.is_file():
            name = file.relative_to(directory).as_posix()
            found["/" if name == INDEX else f"/dashboard/{name}"] = _static_file(file)
    return found


def _static_file(file: Path) -> StaticFile:
    content = file.read_bytes()
    headers = {
        "Content-Type": CONTENT_TYPES[file.suffix],
        "ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"',
        "Cache-Control": "no-cache",
        "Vary": "Accept-Encoding",
        **SECURITY_HEADERS,
    }
    compressed = gzip.compress(content, mtime=0) if len(content) >= COMPRESSED_FROM_BYTES else None
    return StaticFile(content, compressed, headers)


def _tags(header: str) -> list[str]:
    return [each.strip().removeprefix("W/") for each in header.split(",")]
