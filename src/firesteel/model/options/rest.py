"""Options of the REST endpoint and of those who call it."""

from firesteel.model.configuration import ConfigOption

REST_PORT = ConfigOption("rest.port", "port", 8081, "Port of the REST endpoint; 0 takes a free one.")
REST_ADDRESS = ConfigOption(
    "rest.address",
    "str",
    "",
    "Where clients find the masters: HOST:PORT or https://HOST:PORT, several parted by commas; or where it is written down who leads: `zookeeper://HOST:PORT,.../ROOT`, or `high-availability` for what the options of that name say. Empty means the cluster that was started on this machine (else its REST port), and for `firesteel run` a cluster of its own.",
)
CLIENT_TIMEOUT = ConfigOption(
    "client.timeout",
    "duration",
    60_000,
    "How long a client goes on asking a cluster that has answered before and does not now.",
)
EXECUTION_ATTACHED = ConfigOption(
    "execution.attached",
    "bool",
    True,
    "Whether a client that hands in a job stays with it; `firesteel run --detach` and `submit` do not.",
)
SHUTDOWN_ON_ATTACHED_EXIT = ConfigOption(
    "execution.shutdown-on-attached-exit",
    "bool",
    False,
    "Whether a job that is handed in to a cluster by a client that stays with it ends with that client: it is cancelled when the client was not heard of for `client.heartbeat.timeout`.",
)
CLIENT_HEARTBEAT_INTERVAL = ConfigOption(
    "client.heartbeat.interval",
    "duration",
    30_000,
    "Time between two signs of life of a client for jobs that end with it.",
)
CLIENT_HEARTBEAT_TIMEOUT = ConfigOption(
    "client.heartbeat.timeout",
    "duration",
    180_000,
    "A job that ends with its client is cancelled when the client was not heard of for this long; a new leader gives it all of that time again.",
)
REST_BIND_ADDRESS = ConfigOption(
    "rest.bind-address",
    "str",
    "127.0.0.1",
    "Address the REST endpoint listens on; 0.0.0.0 for all. Whoever reaches it can run code, unless there are users.",
)
REST_MAX_CONTENT_LENGTH = ConfigOption(
    "rest.server.max-content-length",
    "memory",
    100,
    "Largest request the REST endpoint takes: a job with its artifacts. A number alone is bytes, as in Flink.",
    bare_unit="b",
)
REST_USERS_FILE = ConfigOption(
    "rest.users-file",
    "str",
    "",
    "YAML file of users with their tokens and roles (view, submit, operate); empty means that anybody may do anything.",
)
REST_CERTIFICATE = ConfigOption(
    "security.ssl.rest.certificate",
    "str",
    "",
    "PEM file with the REST endpoint's certificate chain; empty means no TLS.",
)
REST_PRIVATE_KEY = ConfigOption("security.ssl.rest.private-key", "str", "", "PEM file with the certificate's key.")
REST_CA = ConfigOption(
    "security.ssl.rest.ca",
    "str",
    "",
    "PEM file with the authorities that clients trust; at the endpoint, clients must show a certificate of one of them.",
)
FLAMEGRAPH_ENABLED = ConfigOption(
    "rest.flamegraph.enabled", "bool", True, "Whether flame graphs of running attempts are made, for who asks for one."
)
FLAMEGRAPH_SAMPLES = ConfigOption(
    "rest.flamegraph.num-samples", "int", 100, "Looks at an attempt that a flame graph is made of."
)
FLAMEGRAPH_DELAY = ConfigOption(
    "rest.flamegraph.delay-between-samples", "duration", 50, "Time between two of these looks."
)
FLAMEGRAPH_DEPTH = ConfigOption(
    "rest.flamegraph.stack-depth", "int", 100, "Most frames of a stack that a flame graph shows, the innermost ones."
)
FLAMEGRAPH_REFRESH = ConfigOption(
    "rest.flamegraph.refresh-interval",
    "duration",
    60_000,
    "Age from which on a flame graph is made anew, when somebody asks.",
)
WEB_REFRESH_INTERVAL = ConfigOption(
    "web.refresh-interval",
    "duration",
    3_000,
    "How often Flink's dashboard is told, by /config, to ask for what it shows; the one that comes with firesteel hears of changes by itself.",
)
WEB_ALLOW_ORIGIN = ConfigOption(
    "web.access-control-allow-origin",
    "str",
    "",
    "Origins whose web pages may call the REST endpoint, parted by commas; * for all. Empty means its own only.",
)
