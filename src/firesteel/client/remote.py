"""A cluster elsewhere, as the command line uses one: its client, and a process of our own to build jobs in."""

import asyncio
import os
import re
import shutil
import ssl
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from firesteel.client.building import call_in_process
from firesteel.client.finding import LeaderFinder, local_addresses, names_register
from firesteel.client.heartbeats import Attachment
from firesteel.client.http import HttpClusterClient
from firesteel.client.transport import TOKEN_VARIABLE, urls
from firesteel.model import options
from firesteel.model.options import Configuration, ConfigurationError

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]*=*")
"""What a header `Authorization: Bearer` can carry: RFC 6750, b68token."""


def http_client(configuration: Configuration, token: str | None = None) -> HttpClusterClient:
    """A client of the masters that `rest.address` names, with the environment's token by default.

    Raises ConfigurationError.
    """
    text = configuration.get_option(options.REST_ADDRESS) or local_addresses(configuration)
    finder = LeaderFinder(text, configuration) if names_register(text) else None
    try:
        addresses = urls(text) if finder is None else []
    except ValueError as error:
        raise ConfigurationError(f"{options.REST_ADDRESS.key}: {error}") from None
    may_need_tls = finder is not None or any(each.startswith("https:") for each in addresses)
    token_from = TOKEN_VARIABLE if token is None else "token="
    token = (os.environ.get(TOKEN_VARIABLE, "") if token is None else token).strip()  # a file's last line ends
    if _TOKEN.fullmatch(token) is None:
        raise ConfigurationError(
            f"{token_from}: a token is made of A-Z, a-z, 0-9 and -._~+/, and this one of other marks too"
        )
    patience_ms = configuration.get_option(options.CLIENT_TIMEOUT)
    return HttpClusterClient(
        addresses,
        token=token,
        token_from=token_from,
        finder=finder,
        tls=_tls(configuration) if may_need_tls else None,
        patience_s=patience_ms / 1_000,
        attachment=_attachment(configuration),
    )


def _tls(configuration: Configuration) -> ssl.SSLContext:
    from firesteel.adapters.rpc.settings import rest_tls  # not for those whose cluster has none

    return rest_tls(configuration)


def _attachment(configuration: Configuration) -> Attachment:
    """Whether jobs end with this client, and how it shows that it is there. Raises ConfigurationError."""
    interval_ms = configuration.get_option(options.CLIENT_HEARTBEAT_INTERVAL)
    timeout_ms = configuration.get_option(options.CLIENT_HEARTBEAT_TIMEOUT)
    attached, ends = options.EXECUTION_ATTACHED, options.SHUTDOWN_ON_ATTACHED_EXIT
    if not (configuration.get_option(attached) and configuration.get_option(ends)):
        return Attachment(interval_ms=interval_ms)
    if not 0 < interval_ms < timeout_ms:
        keys = options.CLIENT_HEARTBEAT_INTERVAL.key, options.CLIENT_HEARTBEAT_TIMEOUT.key
        text = f"{keys[0]} is {interval_ms} ms, and {keys[1]} {timeout_ms} ms: the first must be shorter"
        raise ConfigurationError(text)
    return Attachment(timeout_ms, interval_ms)


class RemoteCluster:
    """`async with RemoteCluster(configuration) as cluster: ...`; its client says when nobody answers."""

    goodbye = ""

    def __init__(self, configuration: Configuration) -> None:
        """Raises ConfigurationError."""
        self.client = http_client(configuration)
        self._work_dir: Path | None = None

    async def __aenter__(self) -> Self:
        """Nothing is built for a cluster that does not answer. Raises ClusterUnreachable."""
        try:
            await self.client.reach()
            self._work_dir = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="firesteel-"))
        except BaseException:
            await self.client.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.client.close()
        await asyncio.to_thread(shutil.rmtree, self.work_dir, ignore_errors=True)

    @property
    def work_dir(self) -> Path:
        """Directory in which jobs are built."""
        assert self._work_dir is not None, "not entered"
        return self._work_dir

    async def call(self, entry_point: str, payload: bytes) -> bytes:
        """Run `module:function(bytes) -> bytes` in a process of its own. Raises BuildProcessFailed."""
        return await call_in_process(self.work_dir, entry_point, payload)
