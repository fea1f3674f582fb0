"""The first call of a Connect server: what keeps it out is one sentence, with a way out and without the token."""

import contextlib
import datetime
import re
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import msgspec
import pytest
import trustme

from firesteel.adapters.spark.clusters.masters import read_master, server_address
from firesteel.adapters.spark.task import servercall

TOKEN = "geheim"
Answer = Callable[[Any], None]
NOW = datetime.datetime.now(datetime.UTC)


class _AnswersAll(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def service(self, details: Any) -> Any:
        def unary(request: bytes, context: Any) -> bytes:
            self._answer(context)
            return b""

        return grpc.unary_unary_rpc_method_handler(unary)


@contextlib.contextmanager
def listening(answer: Answer = lambda context: None, certificate: trustme.LeafCert | None = None) -> Iterator[int]:
    """The port of a server that answers every call so, by TLS where it has a certificate."""
    server = grpc.server(ThreadPoolExecutor(2), handlers=[_AnswersAll(answer)])
    if certificate is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        chain = b"".join(each.bytes() for each in certificate.cert_chain_pems)
        pair = (certificate.private_key_pem.bytes(), chain)
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def authorities(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """gRPC reads the file once a process: it is the same in all tests here."""
    file = tmp_path_factory.mktemp("authorities") / "known.pem"
    authority.cert_pem.write_to_path(str(file))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(servercall.AUTHORITIES, str(file))
        yield file


def said(port: int, parameters: str) -> str:
    endpoint = server_address(read_master(f"sc://127.0.0.1:{port}/;{parameters}"))
    text = servercall.call(msgspec.json.encode(endpoint)).decode()
    assert TOKEN not in text
    return text


def aborting(code: grpc.StatusCode, text: str = "") -> Answer:
    return lambda context: context.abort(code, text)


@pytest.mark.parametrize(
    ("answer", "parameters", "says"),
    [
        (lambda context: None, f"token={TOKEN}", ""),
        (aborting(grpc.StatusCode.UNIMPLEMENTED), "", ""),
        (aborting(grpc.StatusCode.UNAUTHENTICATED), f"token={TOKEN}", "does not take the token of this worker"),
        (aborting(grpc.StatusCode.UNAUTHENTICATED), "", "asks for a token, and this worker has none"),
        (aborting(grpc.StatusCode.PERMISSION_DENIED), f"token={TOKEN}", "does not let this worker in"),
        (aborting(grpc.StatusCode.UNKNOWN, f"no Bearer {TOKEN}"), f"token={TOKEN}", r"\(no Bearer \*{6}\)"),
        (
            aborting(grpc.StatusCode.UNAVAILABLE, "Received http2 header with status: 502"),
            "",
            r"is a proxy that does not reach the Connect server behind it \(HTTP status 502\)",
        ),
    ],
)
def test_what_the_server_answers(answer: Answer, parameters: str, says: str) -> None:
    with listening(answer) as port:
        text = said(port, parameters)
    assert bool(text) == bool(says)
    assert re.search(says, text)


def test_tls_with_an_authority_that_is_known(authority: trustme.CA, authorities: Path) -> None:
    with listening(certificate=authority.issue_cert("127.0.0.1")) as port:
        assert said(port, f"use_ssl=true;token={TOKEN}") == ""
        assert said(port, f"token={TOKEN}").startswith("speaks TLS, and this worker does not: add ;use_ssl=true")


def test_certificates_that_are_not_to_be_trusted(authority: trustme.CA, authorities: Path) -> None:
    old = authority.issue_cert(
        "127.0.0.1", not_before=NOW - datetime.timedelta(9), not_after=NOW - datetime.timedelta(8)
    )
    for certificate, says in (
        (authority.issue_cert("spark.example.com"), "has a certificate that does not name 127.0.0.1"),
        (old, "has a certificate that is not valid now (certificate has expired)"),
        (
            trustme.CA().issue_cert("127.0.0.1"),
            f"has a certificate of an authority that is not among those in {authorities}",
        ),
    ):
        with listening(certificate=certificate) as port:
            assert said(port, "use_ssl=true").startswith(says)


def test_a_file_of_authorities_that_can_not_be_read(
    authority: trustme.CA, authorities: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(servercall.AUTHORITIES, "/nowhere.pem")
    with listening(certificate=trustme.CA().issue_cert("127.0.0.1")) as port:
        assert said(port, "use_ssl=true").startswith("can't be trusted: /nowhere.pem")


def test_tls_to_a_server_without(authorities: Path) -> None:
    with listening() as port:
        assert said(port, f"use_ssl=true;token={TOKEN}").startswith("does not speak TLS, and this worker does")


@pytest.mark.parametrize("parameters", ["", "use_ssl=true"])
def test_one_that_says_nothing(parameters: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servercall, "CALL_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert said(silent.getsockname()[1], parameters).startswith("has not answered a call within 1 s")
