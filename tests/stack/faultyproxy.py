"""A proxy before a server of S3 that does to requests what networks and busy stores do. Its chances come from a seed."""

import contextlib
import http.client
import random
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

FAULTS = ("slow-down", "internal-error", "torn", "answer-lost")
_ANSWERS = {"slow-down": (503, "SlowDown"), "internal-error": (500, "InternalError")}
_HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive", "expect"}


@contextlib.contextmanager
def faulty_proxy(url: str, seed: int, chance: float) -> Iterator["FaultyProxy"]:
    proxy = FaultyProxy(url, seed, chance)
    serving = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05})
    serving.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        serving.join()
        proxy.server_close()


class FaultyProxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, url: str, seed: int, chance: float) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind, self.chance = urlsplit(url), chance
        self._random, self._lock = random.Random(seed), threading.Lock()
        self.done: dict[str, int] = dict.fromkeys(FAULTS, 0)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def fault(self) -> str:
        """What becomes of the next request; empty: nothing."""
        with self._lock:
            if self._random.random() >= self.chance:
                return ""
            fault = self._random.choice(FAULTS)
            self.done[fault] += 1
            return fault

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Connections that break are what this is for."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultyProxy

    def _forward(self) -> None:
        fault = self.server.fault()
        if fault == "torn":
            self.rfile.read(min(1_000, int(self.headers.get("Content-Length", 0))))
            self._break()
            return
        body = self._body()
        if fault in _ANSWERS:
            status, code = _ANSWERS[fault]
            self._answer(status, [], f"<Error><Code>{code}</Code><Message>{fault}</Message></Error>".encode())
            return
        behind = http.client.HTTPConnection(str(self.server.behind.hostname), self.server.behind.port, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_BY_HOP}
        behind.request(self.command, self.path, body, headers)
        answer = behind.getresponse()
        data = answer.read()
        length = answer.getheader("Content-Length", str(len(data)))
        behind.close()
        if fault == "answer-lost":
            self._break()
        else:
            self._answer(answer.status, answer.getheaders(), data, length)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _forward

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes, length: str = "") -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", length or str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _break(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""
