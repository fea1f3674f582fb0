"""A first call of a Connect server of others: whether TLS and token of this worker get through to it, and what to change.

One call, without PySpark, which tries for ten minutes what can't succeed. A proxy in front of the server may answer instead.
"""

import os
import re
import socket
import ssl
import uuid

import grpc
import msgspec

from firesteel.adapters.spark import wire
from firesteel.adapters.spark.session.channel import open_channel
from firesteel.adapters.spark.task.sessionhand import SessionHand
from firesteel.model import options

CALL_SECONDS = 60.0
"""Time that the server has to answer the call."""
LOOK_SECONDS = 4.0
"""Time for another look at what listens there, after the call has failed."""
AUTHORITIES = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"
DETAILS_MAX_CHARS = 300
_WHERE = options.SPARK_MASTER.key
_HTTP = re.compile(r"http2 header with status: (\d{3})")
_UNREACHED = ("502", "503", "504")
_OTHER_TIME, _OTHER_NAME = (9, 10), (62, 64)
"""OpenSSL's numbers: a certificate that is not valid yet, or no longer; of another host, or another address."""


def call(payload: bytes) -> bytes:
    """JSON of a SparkAddress in; what keeps calls from it out, to be read after its address: nothing when they get there."""
    endpoint = msgspec.json.decode(payload, type=wire.SparkAddress)
    try:
        with open_channel(endpoint) as server:
            nobodys = wire.SessionName("", str(uuid.uuid4()))
            SessionHand(server, endpoint, CALL_SECONDS).status(nobodys)
    except grpc.RpcError as error:
        return _obstacle(endpoint, error).encode()
    return b""


def _obstacle(endpoint: wire.SparkAddress, error: grpc.RpcError) -> str:
    details = str(error.details())
    found = _HTTP.search(details)
    status = found[1] if found is not None else ""
    match error.code():
        case grpc.StatusCode.UNIMPLEMENTED if not status:
            return ""  # a Spark of another version, which the small query names
        case grpc.StatusCode.UNAUTHENTICATED if not endpoint.token:
            return f"asks for a token, and this worker has none: add ;token=TOKEN to {_WHERE}"
        case grpc.StatusCode.UNAUTHENTICATED:
            return f"does not take the token of this worker: correct ;token=TOKEN in {_WHERE}"
        case grpc.StatusCode.PERMISSION_DENIED:
            return (
                f"does not let this worker in: have its token{_status(status)} allowed there, or correct it in {_WHERE}"
            )
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return f"has not answered a call within {CALL_SECONDS:g} s: look at its log, or correct {_WHERE}"
        case grpc.StatusCode.UNAVAILABLE if status in _UNREACHED:
            return f"is a proxy that does not reach the Connect server behind it{_status(status)}: start that, or correct the proxy"
        case grpc.StatusCode.UNAVAILABLE if not status:
            return _of_channel(endpoint, details)
    told = details.replace(endpoint.token, "******") if endpoint.token else details
    return f"does not answer as a Connect server does ({told[:DETAILS_MAX_CHARS]}): correct {_WHERE}, or what is in front of it"


def _status(status: str) -> str:
    return f" (HTTP status {status})" if status else ""


def _of_channel(endpoint: wire.SparkAddress, details: str) -> str:
    """Why there is no channel, by another look at what listens there: gRPC's words are its own, and change."""
    spoken = _protocol(endpoint)
    if not endpoint.secure and spoken is not None:
        return f"speaks TLS, and this worker does not: add ;use_ssl=true to {_WHERE}"
    if endpoint.secure and spoken is None:
        return (
            "does not speak TLS, and this worker does: name the port of the proxy that does, or set ;use_ssl=false in"
            f" {_WHERE}, without a token unless the server is on this host"
        )
    if endpoint.secure and spoken != "h2":
        return "speaks TLS without HTTP/2, which gRPC needs: switch it on in the proxy"
    if endpoint.secure:
        return _of_certificate(endpoint, details)
    return f"does not answer as a Connect server does ({details[-DETAILS_MAX_CHARS:]}): correct {_WHERE}"


def _of_certificate(endpoint: wire.SparkAddress, details: str) -> str:
    """Python's judgement of it, with the authorities that gRPC was told to use."""
    file = os.environ.get(AUTHORITIES, "")
    try:
        authorities = ssl.create_default_context(cafile=file or None)
    except OSError:
        return f"can't be trusted: {file}, which {AUTHORITIES} names, has no certificates in PEM that can be read"
    why = ""
    try:
        _shake_hands(endpoint, authorities)
    except ssl.SSLCertVerificationError as error:
        why = f" ({error.verify_message})"
        if error.verify_code in _OTHER_NAME:
            return f"has a certificate that does not name {endpoint.host}: put a name that it has into {_WHERE}"
        if error.verify_code in _OTHER_TIME:
            return f"has a certificate that is not valid now{why}: renew it, or set the clock"
    except OSError:
        pass
    if file and not why:
        return f"ends TLS at once ({details[-DETAILS_MAX_CHARS:]}): look at its log"
    known = f"those in {file}" if file else "those that gRPC has with it"
    return (
        f"has a certificate of an authority that is not among {known}{why}: set {AUTHORITIES} to a file in PEM with it"
    )


def _protocol(endpoint: wire.SparkAddress) -> str | None:
    """What is spoken over TLS there, as ALPN names it; None where there is no TLS."""
    anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    try:
        return _shake_hands(endpoint, anybody)
    except OSError:
        return None


def _shake_hands(endpoint: wire.SparkAddress, tls: ssl.SSLContext) -> str:
    """Raises OSError, of which ssl.SSLError is one."""
    tls.set_alpn_protocols(["h2", "http/1.1"])
    with (
        socket.create_connection((endpoint.host, endpoint.port), LOOK_SECONDS) as plain,
        tls.wrap_socket(plain, server_hostname=endpoint.host) as shaken,
    ):
        return shaken.selected_alpn_protocol() or ""
