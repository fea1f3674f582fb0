"""Options of high availability: who leads, and where that is kept."""

from firesteel.model.configuration import ConfigOption

HA_TYPE = ConfigOption(
    "high-availability.type",
    "str",
    "none",
    "What outlives a master: with `none` nothing does; else jobs and results do, in `high-availability.storageDir`, and several masters may share them, of which one leads. Who leads is kept there too with `filesystem`, in ZooKeeper with `zookeeper`, or by a class of your own (`module:Class`, a `firesteel.runtime.register.LeaderRegister` that is made with the configuration).",
    aliases={word: word for word in ("none", "filesystem", "zookeeper")},
)
HA_LEASE_DURATION = ConfigOption(
    "high-availability.leader-election.lease-duration",
    "duration",
    10_000,
    "A leader that gave no sign of life for this long may be replaced, also when its address takes connections.",
)

ZOOKEEPER_QUORUM = ConfigOption(
    "high-availability.zookeeper.quorum",
    "str",
    "",
    "The servers of the ZooKeeper ensemble: HOST:PORT parted by commas.",
)
ZOOKEEPER_ROOT = ConfigOption(
    "high-availability.zookeeper.path.root",
    "str",
    "/firesteel",
    "Node in ZooKeeper below which each cluster has one, named by its `high-availability.cluster-id`.",
)
ZOOKEEPER_SESSION_TIMEOUT = ConfigOption(
    "high-availability.zookeeper.client.session-timeout",
    "duration",
    10_000,
    "A leader that ZooKeeper has not heard of for this long may be replaced, and one that has not heard of ZooKeeper for this long stops leading. The servers have limits of their own on it.",
)
ZOOKEEPER_CONNECTION_TIMEOUT = ConfigOption(
    "high-availability.zookeeper.client.connection-timeout",
    "duration",
    15_000,
    "Limit on the first connection to ZooKeeper, when a process starts.",
)
