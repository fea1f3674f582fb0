"""Registers of the leader, as `high-availability.type` names them: for masters, and for those who look for one."""

import importlib
import os
import re
from dataclasses import dataclass

from firesteel.adapters.ha.storage import configured_storage
from firesteel.model import options
from firesteel.model.options import Configuration, ConfigurationError
from firesteel.runtime.register import LeaderRegister

REGISTER_METHODS = ("open", "close", "newest", "claim", "touch", "give_up", "changed")
"""What a register of the user's own must have."""


KUBERNETES_PREFIX = "firesteel-"
"""Of the names of objects in Kubernetes, before that of the cluster."""


@dataclass(frozen=True, slots=True)
class ElectionTimes:
    lease_ms: int
    """Without a sign of life for which a leader still counts as one."""
    renew_deadline_ms: int
    """For which a leader that can't reach the register goes on."""
    retry_ms: int
    """Between two signs of life, or looks at them."""


def election_times(config: Configuration) -> ElectionTimes:
    """Of the register that `high-availability.type` names."""
    get, kind = config.get_option, config.get_option(options.HA_TYPE)
    if kind == "kubernetes":
        return ElectionTimes(
            get(options.KUBERNETES_LEASE_DURATION),
            get(options.KUBERNETES_RENEW_DEADLINE),
            get(options.KUBERNETES_RETRY_PERIOD),
        )
    lease_ms = get(options.ZOOKEEPER_SESSION_TIMEOUT if kind == "zookeeper" else options.HA_LEASE_DURATION)
    return ElectionTimes(lease_ms, lease_ms, get(options.HA_RETRY_PERIOD))


def leader_register(config: Configuration) -> LeaderRegister | None:
    """The register that `high-availability.type` names, to be opened; None with `none`. Raises ConfigurationError."""
    kind = config.get_option(options.HA_TYPE)
    if kind == "none":
        return None
    if kind == "filesystem":
        storage = configured_storage(config)
        assert storage is not None, "only with `none` there is no storage"
        return storage.register()
    if kind == "zookeeper":
        return _zookeeper(config)
    if kind == "kubernetes":
        return _kubernetes(config)
    return _own_register(kind, config)


def _zookeeper(config: Configuration) -> LeaderRegister:
    quorum, root = config.get_option(options.ZOOKEEPER_QUORUM), config.get_option(options.ZOOKEEPER_ROOT)
    if not quorum:
        raise ConfigurationError(f"{options.HA_TYPE.key} is zookeeper: set {options.ZOOKEEPER_QUORUM.key} too")
    if not re.fullmatch(r"(/[^/]+)+", root):
        raise ConfigurationError(f"{options.ZOOKEEPER_ROOT.key}: {root!r} is not the path of a node, like /firesteel")
    from firesteel.adapters.ha.zookeeper import ZooKeeperRegister  # kazoo is for those who use it

    return ZooKeeperRegister(
        quorum,
        f"{root}/{config.get_option(options.CLUSTER_ID)}",
        session_timeout_s=config.get_option(options.ZOOKEEPER_SESSION_TIMEOUT) / 1000,
        connection_timeout_s=config.get_option(options.ZOOKEEPER_CONNECTION_TIMEOUT) / 1000,
    )


def _kubernetes(config: Configuration) -> LeaderRegister:
    name = f"{KUBERNETES_PREFIX}{config.get_option(options.CLUSTER_ID)}"
    if len(name) > 253 or not re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", name):
        raise ConfigurationError(
            f"{options.CLUSTER_ID.key}: an object in Kubernetes can't be called {name!r}; small letters, digits, - and ."
            " can be in its name"
        )
    # For those who use them.
    from firesteel.adapters.ha.kubernetes import KubernetesRegister
    from firesteel.adapters.kubernetes.access import configured_access
    from firesteel.adapters.kubernetes.api import KubernetesApi

    api = KubernetesApi(configured_access(config, os.environ))
    return KubernetesRegister(api, name, lease_s=config.get_option(options.KUBERNETES_LEASE_DURATION) / 1000)


def _own_register(kind: str, config: Configuration) -> LeaderRegister:
    """An instance of the user's class `module:Class`, made with the configuration. Raises ConfigurationError."""
    module, _, name = kind.partition(":")
    what = f"{options.HA_TYPE.key}: {kind!r}"
    if not name:
        raise ConfigurationError(
            f"{what} is none of none, filesystem, zookeeper, kubernetes, nor module:Class of a register"
        )
    try:
        made: LeaderRegister = getattr(importlib.import_module(module), name)(config)
    except (ImportError, AttributeError, TypeError) as error:
        raise ConfigurationError(f"{what} can't be made: {error}") from None
    missing = [each for each in REGISTER_METHODS if not callable(getattr(made, each, None))]
    if missing:
        raise ConfigurationError(f"{what} lacks {', '.join(missing)} of firesteel.runtime.register.LeaderRegister")
    return made
