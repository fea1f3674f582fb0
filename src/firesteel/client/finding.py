"""Finding the masters, when not their addresses are known but where it is written down who leads."""

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from firesteel.model import options
from firesteel.model.options import Configuration, ConfigurationError
from firesteel.model.stored import UNREADABLE
from firesteel.runtime.directories import state_directory
from firesteel.runtime.register import LeaderRegister

BY_CONFIGURATION = "high-availability"
"""Address that stands for what the options of that name say."""

ZOOKEEPER = "zookeeper"

PROCESSES_FILE = "processes.json"
"""File in the directory of a cluster: the processes that were started."""


def names_register(address: str) -> bool:
    """Whether it says where leaders are written down, instead of where they listen."""
    return address == BY_CONFIGURATION or address.startswith(f"{ZOOKEEPER}://")


def cluster_directory(configuration: Configuration) -> Path:
    """Directory of the cluster that was started on this machine, with its records."""
    return Path(configuration.get_option(options.CLUSTER_DIR) or state_directory() / "cluster").absolute()


def local_addresses(configuration: Configuration) -> str:
    """Addresses of the masters that `firesteel cluster start` has started here, else of one at `rest.port`.

    A port that the configuration names is looked for among the former: another cluster may be meant.
    """
    port = configuration.get_option(options.REST_PORT)
    found = [
        record.where.rpartition(" REST at ")[2] for record in _recorded(configuration) if record.role == "jobmanager"
    ]
    started = [url for url in found if url]
    is_other = options.REST_PORT.key in configuration and port and all(urlsplit(url).port != port for url in started)
    return ",".join(started) if started and not is_other else f"127.0.0.1:{port}"


class _Recorded(msgspec.Struct):
    """Fields of a process's record that are read."""

    role: str
    where: str = ""


def _recorded(configuration: Configuration) -> list[_Recorded]:
    try:
        content = (cluster_directory(configuration) / PROCESSES_FILE).read_bytes()
        return msgspec.json.decode(content, type=list[_Recorded])
    except (OSError, *UNREADABLE):  # there is none, or one that `firesteel cluster` complains of
        return []


class LeaderFinder:
    """Asks the register that an address names, `zookeeper://HOST:PORT,.../ROOT` or `high-availability`."""

    def __init__(self, address: str, configuration: Configuration) -> None:
        """Raises ConfigurationError."""
        from firesteel.adapters.ha.registers import leader_register  # masters' parts, for those who ask for them

        register = leader_register(_configured(address, configuration))
        if register is None:
            key = options.HA_TYPE.key
            raise ConfigurationError(f"{options.REST_ADDRESS.key}: {address!r} needs {key}, and that is none")
        self._register: LeaderRegister = register
        self._address = address
        self._is_open = False
        self._opening = asyncio.Lock()

    def __str__(self) -> str:
        return self._address

    async def find(self) -> str | None:
        """URL of the REST endpoint of who leads, or led last; None when nobody has. Raises OSError."""
        async with self._opening:
            if not self._is_open:
                await self._register.open()
                self._is_open = True
        known = await self._register.newest()
        return known.record.rest or None if known is not None else None

    async def close(self) -> None:
        if self._is_open:
            await self._register.close()


def _configured(address: str, configuration: Configuration) -> Configuration:
    if address == BY_CONFIGURATION:
        return configuration
    parts = urlsplit(address)
    values = {options.HA_TYPE.key: ZOOKEEPER, options.ZOOKEEPER_QUORUM.key: parts.netloc}
    if parts.path.strip("/"):
        values[options.ZOOKEEPER_ROOT.key] = parts.path.rstrip("/")
    return configuration.merged(values)
