"""What is asked of a NameNode, and what its answers become. The servers are small ones; a real HDFS is in `make test-stack`."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from firesteel.adapters.storage import webhdfs
from firesteel.adapters.storage.errors import Unusable
from firesteel.adapters.storage.webhdfs import WebHdfs


class Server(ThreadingHTTPServer):
    """Gives one answer to everybody, and notes what it was asked."""

    daemon_threads = True

    def __init__(self, status: int, body: bytes, location: str = "") -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status, self.body, self.location = status, body, location
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def _answer(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.server.asked.append((self.command, unquote(parts.path), query, data))
        self.send_response_only(self.server.status)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    do_GET = do_PUT = do_DELETE = _answer

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


@contextlib.contextmanager
def serving(status: int = 200, body: bytes = b'{"boolean": true}', location: str = "") -> Iterator[Server]:
    with Server(status, body, location) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def asking(*servers: Server) -> Iterator[WebHdfs]:
    client = WebHdfs("nn:8020", [each.url for each in servers], "ann")
    yield client
    client._pool.close()


def refusal(exception: str, message: str) -> bytes:
    return json.dumps({"RemoteException": {"exception": exception, "message": message}}).encode()


def test_names_are_told_as_they_are_and_by_whom() -> None:
    with serving() as namenode, asking(namenode) as client:
        client.rename("/a/k=x%2Fy ü", "/b/#?&", replaces=False)
    query = {"op": "RENAME", "user.name": "ann", "destination": "/b/#?&", "renameoptions": "NONE"}
    assert namenode.asked == [("PUT", "/webhdfs/v1/a/k=x%2Fy ü", query, b"")]


def test_a_client_that_nobody_has_any_more_leaves_no_connection_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Handler, "protocol_version", "HTTP/1.1")  # whose connections stay
    with serving() as namenode:
        client = WebHdfs("nn:8020", [namenode.url], "ann")
        pool = client._pool
        client.rename("/a", "/b", replaces=False)
        assert len(pool.connections) == 1
        del client
        assert pool.connections == []


def test_bytes_go_to_the_datanode_that_is_named() -> None:
    with (
        serving(201, b"") as datanode,
        serving(307, b"", f"{datanode.url}/webhdfs/v1/x?op=CREATE") as namenode,
        asking(namenode) as client,
    ):
        client.write("/x", b"rows")
    assert [data for *_, data in namenode.asked] == [b""]
    assert [data for *_, data in datanode.asked] == [b"rows"]


@pytest.mark.parametrize("size", [0, 1, 6, 10])
def test_a_file_goes_there_in_chunks(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhdfs, "CHUNK_BYTES", 3)
    data = bytes(range(size))
    (tmp_path / "file").write_bytes(data)
    with (
        serving(201, b"") as datanode,
        serving(307, b"", f"{datanode.url}/webhdfs/v1/x?op=CREATE") as namenode,
        asking(namenode) as client,
    ):
        client.upload("/x", tmp_path / "file")
        with pytest.raises(FileNotFoundError) as raised:
            client.upload("/x", tmp_path / "nowhere")
    assert raised.value.errno is not None, "this machine's errors have numbers"
    assert [data for *_, data in namenode.asked] == [b""]
    assert [data for *_, data in datanode.asked] == [data]


def test_a_file_that_nobody_takes_is_told_by_its_place(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"rows")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with (
            serving(307, b"", f"{nobody}/webhdfs/v1/x?op=CREATE") as namenode,
            asking(namenode) as client,
            pytest.raises(
                OSError, match=rf"hdfs://nn:8020/x: {nobody} does not answer .*; does this host reach DataNodes"
            ),
        ):
            client.upload("/x", tmp_path / "file")


def test_of_a_file_so_much_is_asked_for_as_is_wanted() -> None:
    with serving(200, b"rows") as namenode, asking(namenode) as client:
        assert [client.read("/x"), client.read("/x", 5), client.read("/x", 5, 4)] == [b"rows"] * 3
    asked = [(query.get("offset"), query.get("length")) for _, _, query, _ in namenode.asked]
    assert asked == [("0", None), ("5", None), ("5", "4")]


def test_of_several_the_active_one_is_asked_from_then_on() -> None:
    with serving(403, refusal("StandbyException", "not now")) as standby, serving() as active:
        with asking(standby, active) as client:
            for _ in range(3):
                client.make_directory("/x")
        assert (len(standby.asked), len(active.asked)) == (1, 3)
        with (
            asking(standby) as client,
            pytest.raises(OSError, match=f"{standby.url} says it is not the active NameNode"),
        ):
            client.make_directory("/x")


@pytest.mark.parametrize(
    ("status", "body", "kind", "says"),
    [
        (404, refusal("FileNotFoundException", "gone"), FileNotFoundError, "hdfs://nn:8020/x is not there"),
        (403, refusal("FileAlreadyExistsException", "there"), FileExistsError, "there"),
        (
            403,
            refusal("AccessControlException", "Permission denied: user=ann\n\tat x"),
            Unusable,
            "user=ann: grant it, or",
        ),
        (
            403,
            refusal("AccessControlException", "/a (is not a directory)"),
            Unusable,
            r"\(is not a directory\): name another path",
        ),
        (403, refusal("DSQuotaExceededException", "full"), Unusable, "full: raise the quota, or remove files"),
        (403, refusal("SafeModeException", "starting"), OSError, "says SafeModeException: starting"),
        (401, b"<html>", Unusable, r"asks for a log-in \(Kerberos\), which firesteel does not speak"),
        (404, b"<html>", Unusable, "answers 404, and not as WebHDFS: is fs.hdfs.webhdfs-address right?"),
        (502, b"<html>", OSError, "answers 502, and not as WebHDFS"),
        (200, b"<html>", Unusable, "is no WebHDFS: is fs.hdfs.webhdfs-address right?"),
    ],
)
def test_what_a_namenode_says_no_to_is_one_sentence(status: int, body: bytes, kind: type[OSError], says: str) -> None:
    with (
        serving(status, body) as namenode,
        asking(namenode) as client,
        pytest.raises(OSError, match=says) as caught,
    ):
        client.make_directory("/x")
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("hdfs://nn:8020/x")
