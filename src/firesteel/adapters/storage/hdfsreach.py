"""Whether a NameNode listens where a URI says, asked before Spark's client is: that asks a silent one for many minutes."""

import contextlib
import socket
from collections.abc import Mapping

from firesteel.adapters.storage.errors import Unusable
from firesteel.adapters.storage.hdfssettings import NAMENODES, RPC_PORT
from firesteel.adapters.storage.schemes import authority_and_path
from firesteel.adapters.storage.webhdfs import CONNECT_LIMIT_S, SILENCE_LIMIT_S

_BROWSER = b"GET / HTTP/1.0\r\n\r\n"
"""What a port of Hadoop's own protocol takes for a browser that is lost, and tells at once, without a log-in."""
_LOST = b"Hadoop IPC port"
ANSWER_MAX_BYTES = 4096


def check_listens(uri: str, settings: Mapping[str, str]) -> None:
    """Any answer will do that is not another server's. The NameNodes of a name service are left to Spark, which has their
    addresses. Raises OSError that names the URI.
    """
    authority, _ = authority_and_path(uri)
    if settings.get(f"{NAMENODES}{authority}"):
        return
    host, _, port = authority.partition(":")
    where, question = f"{host}:{port or RPC_PORT}", "is that the NameNode's address, as fs.defaultFS has it?"
    try:
        answer = _answer(host, int(port or RPC_PORT))
    except OSError as error:
        raise OSError(f"{uri}: {where} does not answer Spark's client ({error}); {question}") from None
    if answer.startswith(b"HTTP/") and _LOST not in answer:
        raise Unusable(f"{uri}: {where} is a web server; {question}")


def _answer(host: str, port: int) -> bytes:
    """What is told of it, or its beginning; empty where the connection is closed at once. Raises OSError."""
    answer = b""
    with socket.create_connection((host, port), CONNECT_LIMIT_S) as connection:
        connection.settimeout(SILENCE_LIMIT_S)
        with contextlib.suppress(ConnectionError):
            connection.sendall(_BROWSER)
            while len(answer) < ANSWER_MAX_BYTES and (more := connection.recv(ANSWER_MAX_BYTES)):
                answer += more
    return answer
