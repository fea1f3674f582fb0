"""What `taskmanager.spark.master` says: which Spark, at which addresses, with which settings by default. Pure."""

import re
import urllib.parse
from collections.abc import Mapping
from enum import Enum

import msgspec

from firesteel.adapters.spark.wire import SparkAddress
from firesteel.model import options
from firesteel.model.options import Configuration, ConfigurationError

CONNECT_PORT = 15002
"""Where a Connect server listens unless it was told otherwise."""
IDLE_S = 60
"""An executor that has done nothing for so long is given back, also when shuffled rows of ended queries lie there."""
_HOST = r"(?P<host>\[[0-9A-Fa-f:.]+\]|[\w.\-]+)"
_ADDRESS = re.compile(rf"{_HOST}:(?P<port>\d{{1,5}})")
_CONNECT = re.compile(rf"sc://{_HOST}(?::(?P<port>\d{{1,5}}))?/?(?P<parameters>;.*)?")
LOOPBACK = "127.0.0.1"
_API_SERVER = re.compile(rf"(?P<scheme>https?)://{_HOST}(?::(?P<port>\d{{1,5}}))?(?:/[^?#@]*)?")
_PORTS = {"https": 443, "http": 80}
"""Where an API server of Kubernetes listens unless its URL says so."""
_ON_KUBERNETES = {"spark.executor.maxNumFailures": str((1 << 31) - 1)}
"""A pod that a quota does not admit is a failure to Spark, which ends an application with too many: but room is waited for."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_EXAMPLES = "local[N], spark://HOST:PORT, sc://HOST:PORT, yarn or k8s://https://HOST:PORT"


class MasterKind(Enum):
    LOCAL = "local"
    """A JVM of the worker does all the work."""
    STANDALONE = "spark"
    """A JVM of the worker is the driver of an application on a standalone cluster."""
    YARN = "yarn"
    """It is the driver of an application on YARN, in its client mode."""
    KUBERNETES = "k8s"
    """It is the driver of an application on Kubernetes, in its client mode: executors are pods."""
    CONNECT = "sc"
    """A Connect server that others have started, and stop."""


class SparkMaster(msgspec.Struct, frozen=True):
    kind: MasterKind
    shown: str
    """For people: without secrets."""
    addresses: tuple[tuple[str, int], ...] = ()
    """Any of them will do."""
    token: str = ""
    secure: bool = False
    """Whether the Connect server is spoken to by TLS."""
    user: str = ""
    """User of the Connect server that all sessions are opened as; empty: the jobs' own."""
    headers: tuple[tuple[str, str], ...] = ()
    """Sent with each call to a Connect server."""
    api_server: str = ""
    """URL of Kubernetes', without a slash at its end."""

    @property
    def is_local(self) -> bool:
        return self.kind is MasterKind.LOCAL

    @property
    def is_foreign(self) -> bool:
        return self.kind is MasterKind.CONNECT


class Driver(msgspec.Struct, frozen=True):
    """The driver of an application whose executors are elsewhere."""

    master: SparkMaster
    address: str
    """Where executors find it; empty: Spark is to find out."""
    host: str
    """This host's name, for people."""
    has_private_pages: bool = False
    """Spark's pages, which ask nobody who he is, are served on this host's loopback address: masters show them to who may see
    them."""

    @property
    def pages_host(self) -> str:
        """Where Spark's pages are served, as it stands in a URL."""
        host = LOOPBACK if self.has_private_pages else self.address or self.host
        return f"[{host}]" if ":" in host else host


def spark_master(config: Configuration) -> SparkMaster:
    """The Spark of a worker with this configuration. Raises ConfigurationError."""
    return read_master(config.get_option(options.SPARK_MASTER) or config.spark().get("spark.master", "local"))


def read_master(text: str) -> SparkMaster:
    """What the text says. Raises ConfigurationError, which shows no secret."""
    if text.startswith("local"):
        return SparkMaster(MasterKind.LOCAL, text)
    if text.startswith("spark://"):
        return SparkMaster(MasterKind.STANDALONE, text, _standalone_addresses(text))
    if text == "yarn":
        return SparkMaster(MasterKind.YARN, text)
    if text.startswith("k8s://"):
        return _kubernetes(text)
    if text.startswith("sc://"):
        return _connect_server(text)
    raise _refused(text.partition(";")[0], f"is no Spark master: {_EXAMPLES}")


def server_address(master: SparkMaster, generation: int = 0) -> SparkAddress:
    """Where a Connect server of others listens."""
    ((host, port),) = master.addresses
    return SparkAddress(port, master.token, generation, host, master.secure, master.headers)


def attached_settings(driver: Driver, user: Mapping[str, str], local_ip: str = "") -> dict[str, str]:
    """Defaults for a driver whose executors are elsewhere; `local_ip` is the address that its host was told to use, if any.

    An idle worker holds no executor: another worker, and other applications, may have the cores.
    """
    host, bound = user.get("spark.driver.host", driver.address), local_ip or driver.address
    # On YARN some drivers fail to start with pages: Spark 4.3 adds YARN's filter to them while it makes them.
    has_pages = (bound or not driver.has_private_pages) and driver.master.kind is not MasterKind.YARN
    return {
        **(_ON_KUBERNETES if driver.master.kind is MasterKind.KUBERNETES else {}),
        **({"spark.driver.host": host} if host else {}),
        **({"spark.driver.bindAddress": bound} if bound and driver.has_private_pages else {}),
        "spark.ui.enabled": "true" if has_pages else "false",
        "spark.ui.port": "0",
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "0",
        "spark.dynamicAllocation.executorIdleTimeout": f"{IDLE_S}s",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.timeout": f"{IDLE_S}s",
    }


def _standalone_addresses(text: str) -> tuple[tuple[str, int], ...]:
    matches = [_ADDRESS.fullmatch(each) for each in text.removeprefix("spark://").split(",")]
    found = [(each["host"].strip("[]"), int(each["port"])) for each in matches if each is not None]
    if len(found) != len(matches) or any(not 0 < port < 65_536 for _, port in found):
        raise _refused(text, "names no address: spark://HOST:PORT, or spark://HOST:PORT,HOST:PORT of several masters")
    return tuple(found)


def _kubernetes(text: str) -> SparkMaster:
    """As Spark has it: without a scheme it is https."""
    named = text.removeprefix("k8s://")
    url = named if "://" in named else f"https://{named}"
    match = _API_SERVER.fullmatch(url.rstrip("/"))
    port = int(match["port"] or _PORTS[match["scheme"]]) if match is not None else 0
    if match is None or not 0 < port < 65_536:
        raise _refused(text.rpartition("@")[2], "names no API server: k8s://https://HOST:PORT")
    return SparkMaster(MasterKind.KUBERNETES, text, ((match["host"].strip("[]"), port),), api_server=match[0])


def _connect_server(text: str) -> SparkMaster:
    match = _CONNECT.fullmatch(text)
    port = int(match["port"] or CONNECT_PORT) if match is not None else 0
    if match is None or not 0 < port < 65_536:
        raise _refused(text.partition(";")[0], "is no Connect server: sc://HOST:PORT/;token=TOKEN;use_ssl=true")
    given: dict[str, str] = {}
    for each in filter(None, (match["parameters"] or "").split(";")):
        name, is_given, value = each.partition("=")
        if not is_given or not name:
            raise _refused(text.partition(";")[0], "has parameters that are not ;NAME=VALUE")
        given[name] = urllib.parse.unquote(value)
    if "session_id" in given:
        raise _refused(text.partition(";")[0], "names a session_id: each attempt has a session of its own")
    token, secure = given.pop("token", ""), given.pop("use_ssl", "false").lower()
    if secure not in ("true", "false"):
        raise _refused(text.partition(";")[0], "has a use_ssl that is neither true nor false")
    user = given.pop("user_id", "")
    given.pop("user_agent", "")
    if not all(" " <= each <= "~" for value in (token, *given.values()) for each in value):
        raise _refused(
            text.partition(";")[0], "has a token or a header with signs other than ASCII's, which no call can carry"
        )
    shown = f"sc://{match['host']}:{port}"
    host = match["host"].strip("[]")
    is_secure = secure == "true" or (bool(token) and host not in _LOOPBACK)  # as PySpark has it: no token in the clear
    headers = tuple((name.lower(), value) for name, value in given.items())
    return SparkMaster(MasterKind.CONNECT, shown, ((host, port),), token, is_secure, user, headers)


def _refused(shown: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"{options.SPARK_MASTER.key}: {shown!r} {why}")
