"""YARN as its own files name it, and an application there that its driver can no longer end."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import msgspec

from firesteel.adapters.spark.clusters.masters import MasterKind, SparkMaster
from firesteel.model import options
from firesteel.model.options import ConfigurationError

DIRECTORIES = ("YARN_CONF_DIR", "HADOOP_CONF_DIR")
"""Variables that say where Hadoop's files are; Spark takes the first that is set."""
_SITE = "yarn-site.xml"
_PREFIX = "yarn.resourcemanager."
_PORT = 8032
"""Where a ResourceManager listens to clients unless it was told otherwise."""
_VARIABLE = re.compile(r"\$\{([^}]+)\}")
_VARIABLES_MAX = 20
"""Values that stand for one another, as Hadoop has it."""


def located(master: SparkMaster, environment: Mapping[str, str] = os.environ) -> SparkMaster:
    """With the addresses of its ResourceManagers, if it is YARN. Raises ConfigurationError where nothing names them."""
    if master.kind is not MasterKind.YARN:
        return master
    directory = next((environment[name] for name in DIRECTORIES if environment.get(name)), None)
    if directory is None:
        raise ConfigurationError(
            f"{options.SPARK_MASTER.key}: yarn is found by Hadoop's own files: let HADOOP_CONF_DIR name the directory of"
            f" {_SITE}"
        )
    try:
        properties = _properties(Path(directory, _SITE))
    except (OSError, ElementTree.ParseError) as error:
        raise ConfigurationError(
            f"{options.SPARK_MASTER.key}: {directory}, which HADOOP_CONF_DIR or YARN_CONF_DIR names, has no {_SITE} that can"
            f" be read: {error}"
        ) from None
    return msgspec.structs.replace(master, addresses=_resource_managers(properties))


def _properties(file: Path) -> dict[str, str]:
    """Raises OSError or ParseError."""
    root = ElementTree.parse(file).getroot()
    return {each.findtext("name", ""): each.findtext("value", "").strip() for each in root.iter("property")}


def _resource_managers(properties: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    ids = _value(properties, f"{_PREFIX}ha.rm-ids") if _value(properties, f"{_PREFIX}ha.enabled") == "true" else ""
    suffixes = [f".{each.strip()}" for each in ids.split(",") if each.strip()] or [""]
    return tuple(_address(properties, suffix) for suffix in suffixes)


def _address(properties: Mapping[str, str], suffix: str) -> tuple[str, int]:
    host = _value(properties, f"{_PREFIX}hostname{suffix}") or "127.0.0.1"
    named, _, port = _value(properties, f"{_PREFIX}address{suffix}").rpartition(":")
    return (named or host, int(port)) if port.isdecimal() else (port or host, _PORT)


def _value(properties: Mapping[str, str], name: str) -> str:
    text = properties.get(name, "")
    for _ in range(_VARIABLES_MAX):
        found = _VARIABLE.search(text)
        if found is None:
            break
        text = text.replace(found[0], properties.get(found[1], ""))
    return text
