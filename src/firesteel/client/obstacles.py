"""Why somebody who listens at an address can't be talked to: TLS on one side only, or a certificate that does not do."""

import asyncio
import ssl
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpcore

from firesteel.adapters.rpc.refusals import EXPIRED, NO_TLS, NOT_YET_VALID, OF_ANOTHER_NAME
from firesteel.model.options import JOBMANAGER_PORT, REST_CA, REST_CERTIFICATE, REST_PORT, REST_PRIVATE_KEY

LOOK_LIMIT_S = 1.0
"""Time for each look at who listens there: it has taken a connection a moment ago."""

NO_CHECK_TIME = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which Python has no name for."""


async def obstacle(address: str, error: Exception, tls: ssl.SSLContext | None) -> str:
    """A sentence on what is wrong at the address (a URL) and the way out; empty where a request has failed otherwise.

    It looks at the server itself where the error alone does not tell, so it may take `LOOK_LIMIT_S` twice.
    """
    url = urlsplit(address)
    host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
    said = next((each for each in _causes(error) if isinstance(each, ssl.SSLError)), None)
    if url.scheme == "http":
        if isinstance(error, httpcore.ConnectError | httpcore.ConnectTimeout):
            return ""
        if await _greets_workers(host, port):
            return f"{address} is where workers come ({JOBMANAGER_PORT.key}): use the port of REST ({REST_PORT.key})"
        return f"{address} speaks TLS: use https{address.removeprefix('http')}" if await _has_tls(host, port) else ""
    if said is None and _is_broken_off(error) and await _closes_after_handshake(host, port, tls):
        return (
            f"{address} closes connections as soon as TLS is set up: if it asks for a certificate, "
            f"set {REST_CERTIFICATE.key} and {REST_PRIVATE_KEY.key} to one that it trusts"
        )
    if said is None:
        return ""
    if isinstance(said, ssl.SSLCertVerificationError):
        return f"{address} {_of_certificate(said, host, await _described(host, port))}"
    return f"{address} {_of_handshake(said, address)}"


def _of_handshake(error: ssl.SSLError, address: str) -> str:
    reason = error.reason or str(error)
    if reason in NO_TLS:
        return f"speaks no TLS: use http{address.removeprefix('https')}"
    if "ALERT" in reason and any(word in reason for word in ("CERTIFICATE", "UNKNOWN_CA")):
        said = reason.rpartition("ALERT_")[2].replace("_", " ").lower()
        return (
            f"lets in only who shows a certificate that it trusts ({said}): "
            f"set {REST_CERTIFICATE.key} and {REST_PRIVATE_KEY.key}"
        )
    return f"speaks TLS, but not with us: {reason.replace('_', ' ').lower()}"


def _of_certificate(error: ssl.SSLCertVerificationError, host: str, described: Mapping[str, Any]) -> str:
    if error.verify_code in OF_ANOTHER_NAME:
        names = ", ".join(name for _, name in described.get("subjectAltName", ())) or "another name"
        return (
            f"shows a certificate for {names}, and not for {host}: "
            f"use such a name in the address, or give the master a certificate for this one ({REST_CERTIFICATE.key})"
        )
    if error.verify_code == EXPIRED:
        since = f" on {described['notAfter']}" if described else ""
        return f"shows a certificate that has expired{since}: give the master a new one ({REST_CERTIFICATE.key})"
    if error.verify_code == NOT_YET_VALID:
        since = f" before {described['notBefore']}" if described else " yet"
        return f"shows a certificate that is not valid{since}: look at the clocks of both machines"
    return (
        f"shows a certificate that is not trusted here ({error.verify_message}): "
        f"set {REST_CA.key} to the PEM file of the authority that has issued it"
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _is_broken_off(error: Exception) -> bool:
    """A server that lacks our certificate ends the connection after the handshake."""
    return not any(isinstance(each, ConnectionRefusedError | TimeoutError) for each in _causes(error))


async def _closes_after_handshake(host: str, port: int, tls: ssl.SSLContext | None) -> bool:
    """Whether the server ends a connection on which nothing was asked; masters that lack our certificate say no word."""
    try:
        async with asyncio.timeout(LOOK_LIMIT_S):
            reader, writer = await asyncio.open_connection(host, port, ssl=tls or True)
    except OSError:
        return False
    try:
        async with asyncio.timeout(LOOK_LIMIT_S):
            return not await reader.read(1)
    except TimeoutError:
        return False
    except OSError:
        return True
    finally:
        writer.transport.abort()


async def _greets_workers(host: str, port: int) -> bool:
    """Whether it says at once what a master says to a worker."""
    from firesteel.adapters.rpc.frames import MAGIC  # not for those who find their way

    try:
        async with asyncio.timeout(LOOK_LIMIT_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                return await reader.readexactly(len(MAGIC)) == MAGIC
            finally:
                writer.transport.abort()
    except (OSError, asyncio.IncompleteReadError):
        return False


async def _has_tls(host: str, port: int) -> bool:
    return await _certificate(host, port) is not None


async def _certificate(host: str, port: int, tls: ssl.SSLContext | None = None) -> ssl.SSLObject | None:
    """A connection's end with the server's certificate, whoever has issued it; None without TLS there."""
    if tls is None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(LOOK_LIMIT_S):
            _, writer = await asyncio.open_connection(host, port, ssl=tls)
            writer.transport.abort()
    except OSError:
        return None
    found: ssl.SSLObject | None = writer.get_extra_info("ssl_object")
    return found


async def _described(host: str, port: int) -> Mapping[str, Any]:
    """Fields of the certificate as `SSLObject.getpeercert` has them, for words only; empty when there are none to be had.

    Python describes certificates that were verified: so this one is trusted, alone and at any time, to be read.
    """
    shown = await _certificate(host, port)
    encoded = shown.getpeercert(binary_form=True) if shown is not None else None
    if encoded is None:
        return {}
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname = False
    tls.verify_flags = ssl.VerifyFlags(NO_CHECK_TIME) | ssl.VERIFY_X509_PARTIAL_CHAIN
    tls.load_verify_locations(cadata=encoded)
    read = await _certificate(host, port, tls)
    return (read.getpeercert() if read is not None else None) or {}
