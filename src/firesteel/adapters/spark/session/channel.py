"""gRPC channels to a Connect server: the worker's own on this machine, or one of others."""

from typing import Any

import grpc

from firesteel.adapters.spark.wire import SparkAddress

OPTIONS = [("grpc.enable_http_proxy", 0)]
"""The server is where its address says."""


def target(endpoint: SparkAddress) -> str:
    """The server's address as gRPC takes it."""
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{host}:{endpoint.port}"


def metadata(endpoint: SparkAddress) -> list[tuple[str, str]]:
    """What goes with each call.

    pyspark's own builder sends tokens through gRPC's call credentials: a thread and 1 ms for every call.
    """
    bearer = [("authorization", f"Bearer {endpoint.token}")] if endpoint.token else []
    return [*bearer, *endpoint.headers]


def credentials() -> Any:
    """For TLS: with the certificate authorities of the system, or of GRPC_DEFAULT_SSL_ROOTS_FILE_PATH."""
    return grpc.ssl_channel_credentials()


def open_channel(endpoint: SparkAddress) -> grpc.Channel:
    """A channel for a few small calls."""
    if endpoint.secure:
        return grpc.secure_channel(target(endpoint), credentials(), options=OPTIONS)
    return grpc.insecure_channel(target(endpoint), options=OPTIONS)
