"""What a process says of itself to its peers, what it asks of them, and its limits."""

import platform
import ssl
import uuid
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from firesteel.adapters.rpc.frames import Hello, Refused
from firesteel.model import options
from firesteel.model.options import Configuration, ConfigurationError

WRITE_BUFFER_FRAMES = 2
"""Frames of the largest size that may wait for a peer which reads slowly; then it is cut off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings:
    node: str
    """This process, for people."""
    cluster_id: str
    frame_limit_bytes: int
    keep_alive_interval_s: float
    keep_alive_timeout_s: float
    connect_timeout_s: float
    """Limit on the connection, TLS and the handshake together."""
    process: str = field(default_factory=lambda: uuid.uuid4().hex)
    """This one and no other, also of those with the same name."""
    server_tls: ssl.SSLContext | None = None
    client_tls: ssl.SSLContext | None = None

    @property
    def write_buffer_bytes(self) -> int:
        return WRITE_BUFFER_FRAMES * self.frame_limit_bytes

    def hello(self, purpose: str) -> Hello:
        return Hello(
            purpose=purpose,
            node=self.node,
            cluster_id=self.cluster_id,
            firesteel=version("firesteel"),
            python=".".join(platform.python_version_tuple()[:2]),
            pyspark=version("pyspark"),
            process=self.process,
        )


def network_settings(config: Configuration, node: str) -> NetworkSettings:
    """Raises ConfigurationError for certificates that can't be used."""
    return NetworkSettings(
        node=node,
        cluster_id=config.get_option(options.CLUSTER_ID),
        frame_limit_bytes=config.get_option(options.RPC_FRAME_SIZE) << 20,
        keep_alive_interval_s=config.get_option(options.RPC_KEEP_ALIVE_INTERVAL) / 1000,
        keep_alive_timeout_s=config.get_option(options.RPC_KEEP_ALIVE_TIMEOUT) / 1000,
        connect_timeout_s=config.get_option(options.RPC_CONNECT_TIMEOUT) / 1000,
        server_tls=_tls(config, ssl.Purpose.CLIENT_AUTH),
        client_tls=_tls(config, ssl.Purpose.SERVER_AUTH),
    )


def check_peer(mine: Hello, theirs: Hello) -> None:
    """Both sides come to the same verdict. Raises Refused."""
    if theirs.cluster_id != mine.cluster_id:
        raise Refused(f"it belongs to cluster {theirs.cluster_id!r}, this process to {mine.cluster_id!r}")
    for what, his, ours in (("Python", theirs.python, mine.python), ("PySpark", theirs.pyspark, mine.pyspark)):
        if his != ours:
            raise Refused(f"{theirs.node} runs {what} {his} and {mine.node} {ours}: use one version in a cluster")


def rest_tls(configuration: Configuration) -> ssl.SSLContext:
    """As a client of REST endpoints: trusts the configured authority, else the machine's; shows a certificate where one is configured."""
    try:
        context = ssl.create_default_context(cafile=configuration.get_option(options.REST_CA) or None)
        certificate = configuration.get_option(options.REST_CERTIFICATE)
        if certificate:
            context.load_cert_chain(certificate, configuration.get_option(options.REST_PRIVATE_KEY) or None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"the certificates of security.ssl.rest can't be read: {error}") from None
    return context


def _tls(config: Configuration, purpose: ssl.Purpose) -> ssl.SSLContext | None:
    """TLS as configured, from version 1.2 on; with authentication each side shows a certificate of the authority."""
    if not config.get_option(options.SSL_INTERNAL_ENABLED):
        return None
    files = {
        option: config.get_option(option)
        for option in (options.SSL_INTERNAL_CERTIFICATE, options.SSL_INTERNAL_KEY, options.SSL_INTERNAL_AUTHORITIES)
    }
    missing = [option.key for option, file in files.items() if not file]
    if missing:
        raise ConfigurationError(f"{options.SSL_INTERNAL_ENABLED.key} is true: set {', '.join(missing)} too")
    for option, file in files.items():
        try:
            Path(file).open("rb").close()
        except OSError as error:
            raise ConfigurationError(f"{option.key}: {file}: {error.strerror}") from None
    try:
        context = ssl.create_default_context(purpose, cafile=files[options.SSL_INTERNAL_AUTHORITIES])
        context.load_cert_chain(
            files[options.SSL_INTERNAL_CERTIFICATE],
            files[options.SSL_INTERNAL_KEY],
            config.get_option(options.SSL_INTERNAL_KEY_PASSWORD) or _no_password,
        )
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"the certificates of security.ssl.internal.* can't be used: {error}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if purpose is ssl.Purpose.SERVER_AUTH:
        context.check_hostname = config.get_option(options.SSL_VERIFY_HOSTNAME)
    elif config.get_option(options.SSL_INTERNAL_AUTHENTICATION):
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _no_password() -> str:
    """OpenSSL would ask on the terminal for the password of a key that has one."""
    raise ssl.SSLError("the private key has a password: set security.ssl.internal.key-password")
