"""Hosts that are network namespaces on one switch: they reach each other by addresses of their own, and nobody else."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

import pytest

NETWORK = "10.213.7"


class Host(NamedTuple):
    namespace: str
    address: str

    @property
    def prefix(self) -> tuple[str, ...]:
        """Before a command that is to run there."""
        return "ip", "netns", "exec", self.namespace


def ip(*arguments: str) -> bool:
    return subprocess.run(("ip", *arguments), capture_output=True, check=False).returncode == 0


@contextlib.contextmanager
def hosts(count: int) -> Iterator[list[Host]]:
    """The first of them has the switch. Skips the test where this may not be had."""
    made = [Host(f"firesteel-{os.getpid()}-{number}", f"{NETWORK}.{number + 1}") for number in range(count)]
    try:
        if not all(ip("netns", "add", host.namespace) for host in made):
            pytest.skip("network namespaces need root and iproute2")
        first, *others = made
        assert ip("-n", first.namespace, "link", "add", "name", "switch", "type", "bridge")
        _bring_up(first, "switch", first.address)
        for number, host in enumerate(others):
            near, far = (f"fs{os.getpid() % 10_000}{number}{side}" for side in "ab")
            assert ip("link", "add", near, "type", "veth", "peer", "name", far)
            assert ip("link", "set", near, "netns", first.namespace)
            assert ip("link", "set", far, "netns", host.namespace)
            assert ip("-n", first.namespace, "link", "set", near, "master", "switch", "up")
            _bring_up(host, far, host.address)
        yield made
    finally:
        for host in made:
            ip("netns", "delete", host.namespace)


def _bring_up(host: Host, device: str, address: str) -> None:
    assert ip("-n", host.namespace, "address", "add", f"{address}/24", "dev", device)
    assert ip("-n", host.namespace, "link", "set", device, "up")
    assert ip("-n", host.namespace, "link", "set", "lo", "up")
