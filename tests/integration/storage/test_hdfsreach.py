"""Whether a NameNode listens, with servers that are none; a real one is in `make test-stack`."""

import http.server
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from firesteel.adapters.storage import hdfsreach
from firesteel.adapters.storage.errors import Unusable
from firesteel.adapters.storage.hdfsreach import check_listens

OF_HADOOP = b"HTTP/1.1 404 Not Found\r\nContent-type: text/plain\r\n\r\nIt looks like you are making an HTTP request to a Hadoop IPC port."

Serve = Callable[[bytes], int]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Begins a server that answers anybody so, in two parts; gives its port."""
    servers: list[tuple[socket.socket, threading.Thread]] = []

    def begin(answer: bytes) -> int:
        server = socket.create_server(("127.0.0.1", 0))

        def once() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4)
                connection.sendall(answer[:10])
                connection.sendall(answer[10:])
                connection.shutdown(socket.SHUT_WR)
                connection.recv(100)

        thread = threading.Thread(target=once)
        thread.start()
        servers.append((server, thread))
        return int(server.getsockname()[1])

    yield begin
    for server, thread in servers:
        thread.join()
        server.close()


@pytest.mark.parametrize("answer", [OF_HADOOP, b"", b"\x00\x00\x00\x01whatever"])
def test_what_may_be_a_namenode_is_left_to_spark(serve: Serve, answer: bytes) -> None:
    check_listens(f"hdfs://127.0.0.1:{serve(answer)}/x", {})


def test_a_web_server_is_none() -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        uri = f"hdfs://127.0.0.1:{server.server_port}/x"
        with pytest.raises(Unusable) as told:
            check_listens(uri, {})
        thread.join()
    assert str(told.value) == (
        f"{uri}: 127.0.0.1:{server.server_port} is a web server; is that the NameNode's address, as fs.defaultFS has it?"
    )


def test_nobody_and_one_that_is_silent_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfsreach, "SILENCE_LIMIT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        for port, says in ((silent.getsockname()[1], "timed out"), (closed.getsockname()[1], "Connection refused")):
            uri, begun = f"hdfs://127.0.0.1:{port}/x", time.monotonic()
            with pytest.raises(OSError, match="does not answer Spark's client") as told:
                check_listens(uri, {})
            assert str(told.value).startswith(f"{uri}: 127.0.0.1:{port} does not answer")
            assert says in str(told.value)
            assert time.monotonic() - begun < 3


def test_a_name_service_is_left_to_spark() -> None:
    check_listens("hdfs://service/x", {"dfs.ha.namenodes.service": "one,two"})
    with pytest.raises(OSError, match="does not answer Spark's client"):
        check_listens("hdfs://no-such-host.invalid/x", {"dfs.ha.namenodes.service": "one,two"})
