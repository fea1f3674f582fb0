"""Where WebHDFS is: by the option, by the user's hdfs-site.xml, or at the port that NameNodes have by default."""

import getpass
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree

from firesteel.adapters.storage.errors import TargetRefused
from firesteel.adapters.storage.schemes import authority_and_path
from firesteel.model import options
from firesteel.model.options import Configuration, ConfigurationError

ADDRESS = options.HDFS_WEBHDFS_ADDRESS.key
HTTP_PORT, HTTPS_PORT = 9870, 9871
RPC_PORT = 8020
"""Of a NameNode whose URI names none."""
NAMENODES = "dfs.ha.namenodes."
"""Before the name of a service: its NameNodes."""
SITE = "hdfs-site.xml"
_WANTED = ("dfs.http.policy", NAMENODES, "dfs.namenode.http-address", "dfs.namenode.https-address")


def hdfs_settings(config: Configuration, environment: Mapping[str, str]) -> dict[str, str]:
    """All that is said of NameNodes, by Hadoop's keys: the option, `spark.hadoop.dfs.*` before HADOOP_CONF_DIR/hdfs-site.xml.

    Raises ConfigurationError.
    """
    directory = environment.get("HADOOP_CONF_DIR")
    found = _of_site(Path(directory, SITE)) if directory else {}
    given = {key.removeprefix("spark.hadoop."): text for key, text in config.items() if key.startswith("spark.hadoop.")}
    found.update({key: text for key, text in given.items() if key.startswith(_WANTED)})
    if text := config.get_option(options.HDFS_WEBHDFS_ADDRESS):
        found[ADDRESS] = text
        for each in _listed(text):
            _url(each, "http")
    return found


def addresses_of(uri: str, settings: Mapping[str, str]) -> tuple[str, ...]:
    """URLs of the NameNodes that the URI's authority names: one, or those of a name service. Raises TargetRefused."""
    authority, _ = authority_and_path(uri)
    is_secure = settings.get("dfs.http.policy", "").upper() == "HTTPS_ONLY"
    scheme, port = ("https", HTTPS_PORT) if is_secure else ("http", HTTP_PORT)
    key = f"dfs.namenode.{scheme}-address"
    if settings.get(ADDRESS):
        return tuple(_url(each, "http") for each in _listed(settings[ADDRESS]))
    if names := _listed(settings.get(f"{NAMENODES}{authority}", "")):
        found = [settings.get(f"{key}.{authority}.{name}", "") for name in names]
        if not all(found):
            raise TargetRefused(f"{uri}: {key}.{authority}.{names[found.index('')]} is not set; or set {ADDRESS}")
        return tuple(_url(each, scheme) for each in found)
    configured = urlsplit(f"//{settings.get(key, '')}").port
    return (f"{scheme}://{urlsplit(f'//{authority}').hostname}:{configured or port}",)


def user_name(environment: Mapping[str, str]) -> str:
    """Who we are to an HDFS that asks for no log-in: the same as Hadoop's client in Spark."""
    return environment.get("HADOOP_USER_NAME") or getpass.getuser()


def _of_site(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    try:
        properties = ElementTree.parse(os.fspath(path)).getroot().iter("property")
    except ElementTree.ParseError as error:
        raise ConfigurationError(f"{path} can't be read: {error}") from None
    pairs = {(each.findtext("name") or "").strip(): (each.findtext("value") or "").strip() for each in properties}
    return {key: text for key, text in pairs.items() if key.startswith(_WANTED)}


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _url(address: str, scheme: str) -> str:
    """`HOST:PORT` or a URL. Raises ConfigurationError."""
    url = address if "://" in address else f"{scheme}://{address}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or not parts.port or parts.path.strip("/"):
        raise ConfigurationError(
            f"{ADDRESS}: {address!r} is no address like HOST:{HTTP_PORT} or https://HOST:{HTTPS_PORT}"
        )
    return f"{parts.scheme}://{parts.netloc}"
