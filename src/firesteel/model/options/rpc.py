"""Options of the connections between processes."""

from firesteel.model.configuration import ConfigOption

JOBMANAGER_ADDRESS = ConfigOption(
    "jobmanager.rpc.address", "str", "localhost", "Host under which workers reach the master."
)
JOBMANAGER_PORT = ConfigOption(
    "jobmanager.rpc.port", "port", 6123, "Port of the master for workers; 0 takes a free one, which its log names."
)
JOBMANAGER_BIND_HOST = ConfigOption(
    "jobmanager.bind-host",
    "str",
    "",
    "Interface that the master listens on, like 0.0.0.0; empty means jobmanager.rpc.address.",
)
RPC_FRAME_SIZE = ConfigOption("rpc.frame-size.max", "memory", 64, "Largest message between two processes.")
RPC_CONNECT_TIMEOUT = ConfigOption(
    "rpc.connect-timeout", "duration", 10_000, "Limit on making a connection, with TLS and handshake."
)
RPC_KEEP_ALIVE_INTERVAL = ConfigOption(
    "rpc.keep-alive.interval", "duration", 5_000, "Time between two signs of life on a connection."
)
RPC_KEEP_ALIVE_TIMEOUT = ConfigOption(
    "rpc.keep-alive.timeout", "duration", 30_000, "A connection on which nothing came for this long is cut."
)
BLOB_SIZE_MAX = ConfigOption("blob.size.max", "memory", 1024, "Largest artifact of a job that a worker takes.")
SSL_INTERNAL_ENABLED = ConfigOption(
    "security.ssl.internal.enabled", "bool", False, "TLS between the processes of the cluster."
)
SSL_INTERNAL_AUTHENTICATION = ConfigOption(
    "security.ssl.internal.authentication-enabled",
    "bool",
    True,
    "Mutual TLS: the master takes only workers that show a certificate of the authority.",
)
SSL_INTERNAL_CERTIFICATE = ConfigOption(
    "security.ssl.internal.certificate", "str", "", "PEM file with this process's certificate and what leads to it."
)
SSL_INTERNAL_KEY = ConfigOption(
    "security.ssl.internal.private-key", "str", "", "PEM file with the certificate's private key."
)
SSL_INTERNAL_KEY_PASSWORD = ConfigOption(
    "security.ssl.internal.key-password", "str", "", "Password of the private key; empty means it has none."
)
SSL_INTERNAL_AUTHORITIES = ConfigOption(
    "security.ssl.internal.certificate-authorities",
    "str",
    "",
    "PEM file with the authorities whose certificates are trusted.",
)
SSL_VERIFY_HOSTNAME = ConfigOption(
    "security.ssl.verify-hostname", "bool", True, "Whether the master's certificate must name jobmanager.rpc.address."
)
