"""Options of high availability: who leads, and where that is kept."""

from firesteel.model.configuration import ConfigOption

HA_TYPE = ConfigOption(
    "high-availability.type",
    "str",
    "none",
    "What outlives a master: with `none` nothing does; else jobs and results do, in `high-availability.storageDir`, and several masters may share them, of which one leads. Who leads is kept there too with `filesystem`, in ZooKeeper with `zookeeper`, in objects of Kubernetes with `kubernetes`, or by a class of your own (`module:Class`, a `firesteel.runtime.register.LeaderRegister` that is made with the configuration).",
    aliases={word: word for word in ("none", "filesystem", "zookeeper", "kubernetes")},
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

KUBERNETES_NAMESPACE = ConfigOption(
    "kubernetes.namespace",
    "str",
    "",
    "Namespace of Kubernetes in which it is written down who leads. Empty means that of the pod, or of the context in the file of `kubernetes.config.file`, else `default`.",
)
KUBERNETES_CONFIG_FILE = ConfigOption(
    "kubernetes.config.file",
    "str",
    "",
    "File, as `kubectl` has it, that says where the API server of Kubernetes is and as whom it is asked. Empty means the service account in a pod, elsewhere the file of `KUBECONFIG` or `~/.kube/config`.",
)
KUBERNETES_CONTEXT = ConfigOption(
    "kubernetes.context",
    "str",
    "",
    "Context in that file; empty means its current one.",
)
KUBERNETES_LEASE_DURATION = ConfigOption(
    "high-availability.kubernetes.leader-election.lease-duration",
    "duration",
    15_000,
    "With `kubernetes`, a leader that has not renewed its Lease for this long may be replaced, also when its address takes connections.",
)
KUBERNETES_RENEW_DEADLINE = ConfigOption(
    "high-availability.kubernetes.leader-election.renew-deadline",
    "duration",
    10_000,
    "With `kubernetes`, a leader that could not renew its Lease for this long stops leading.",
)
KUBERNETES_RETRY_PERIOD = ConfigOption(
    "high-availability.kubernetes.leader-election.retry-period",
    "duration",
    2_000,
    "With `kubernetes`, time between two renewals of the Lease, between two looks at it, and between two tries to reach the leader.",
)
