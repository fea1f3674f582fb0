"""What a failed handshake of TLS between processes means, in words that name the option to look at."""

import ssl

from firesteel.model.options import (
    SSL_INTERNAL_AUTHORITIES,
    SSL_INTERNAL_CERTIFICATE,
    SSL_INTERNAL_ENABLED,
    SSL_VERIFY_HOSTNAME,
)

EXPIRED, NOT_YET_VALID = 10, 9
OF_ANOTHER_NAME = (62, 64)
"""OpenSSL's X509_V_ERR_*: host name, address."""

NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL")
"""What OpenSSL's releases say of an answer that is plain text."""


class HandshakeFailed(ConnectionError):
    """Of TLS, in words."""


def in_words(error: ssl.SSLError, host: str) -> str:
    """Why `host`, which was connected to, and this process can't talk: the end of a sentence about `host`."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"it shows a certificate that {_certificate(error, host)} ({error.verify_message})"
    reason = error.reason or str(error)
    if reason in NO_TLS:
        return f"it speaks no TLS: {SSL_INTERNAL_ENABLED.key} must be the same in all processes"
    return f"it speaks TLS, but not with this process: {reason.replace('_', ' ').lower()}"


def _certificate(error: ssl.SSLCertVerificationError, host: str) -> str:
    if error.verify_code in OF_ANOTHER_NAME:
        return f"is not for {host}: give it one that is, or set {SSL_VERIFY_HOSTNAME.key} to false"
    if error.verify_code == EXPIRED:
        return f"has expired: give it a new one ({SSL_INTERNAL_CERTIFICATE.key})"
    if error.verify_code == NOT_YET_VALID:
        return "is not valid yet: look at the clocks of both machines"
    return f"is not trusted here: {SSL_INTERNAL_AUTHORITIES.key} must name the authority that has issued it"
