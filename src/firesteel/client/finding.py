"""Where the masters are, when not their addresses are known but where it is written down who leads."""

import asyncio
from urllib.parse import urlsplit

from firesteel.model import options
from firesteel.model.options import Configuration, ConfigurationError
from firesteel.runtime.register import LeaderRegister

BY_CONFIGURATION = "high-availability"
"""As an address: what the options of that name say."""

ZOOKEEPER = "zookeeper"


def names_register(address: str) -> bool:
    """Whether it says where leaders are written down, instead of where they listen."""
    return address == BY_CONFIGURATION or address.startswith(f"{ZOOKEEPER}://")


class LeaderFinder:
    """Asks the register that an address names, `zookeeper://HOST:PORT,.../ROOT` or `high-availability`."""

    def __init__(self, address: str, configuration: Configuration) -> None:
        """Raises ConfigurationError."""
        from firesteel.assembly.highavailability import leader_register  # masters' parts, for those who ask for them

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
