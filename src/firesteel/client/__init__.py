"""Clients of a cluster on the network: `from firesteel.client import ClusterClient`."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firesteel.client.branching import BranchFailed, BranchRefused
    from firesteel.client.cluster import AsyncClusterClient, ClusterClient
    from firesteel.client.http import HttpClusterClient
    from firesteel.client.transport import ClusterUnreachable, Refused
    from firesteel.runtime.client import DuplicateJob, UnknownJob, UnknownResult

__all__ = [
    "AsyncClusterClient",
    "BranchFailed",
    "BranchRefused",
    "ClusterClient",
    "ClusterUnreachable",
    "DuplicateJob",
    "HttpClusterClient",
    "Refused",
    "UnknownJob",
    "UnknownResult",
]

_HOMES = {
    "AsyncClusterClient": "firesteel.client.cluster",
    "BranchFailed": "firesteel.client.branching",
    "BranchRefused": "firesteel.client.branching",
    "ClusterClient": "firesteel.client.cluster",
    "ClusterUnreachable": "firesteel.client.transport",
    "DuplicateJob": "firesteel.runtime.client",
    "HttpClusterClient": "firesteel.client.http",
    "Refused": "firesteel.client.transport",
    "UnknownJob": "firesteel.runtime.client",
    "UnknownResult": "firesteel.runtime.client",
}


def __getattr__(name: str) -> object:
    """Loaded when used: the command line imports parts of this package, and has to answer at once."""
    if name not in _HOMES:
        raise AttributeError(f"module 'firesteel.client' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
