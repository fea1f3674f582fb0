"""What there is to say about S3, said in one place: `s3.*` as Flink names it, or `fs.s3a.*` as Hadoop does.

Everybody who goes to a bucket is given the same: masters and workers by their own clients, Spark by S3A.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from firesteel.adapters.storage.hdfssettings import hdfs_settings
from firesteel.model import options
from firesteel.model.options import Configuration, ConfigurationError

PREFIX = "fs.s3a."
ENDPOINT, REGION, PATH_STYLE = "fs.s3a.endpoint", "fs.s3a.endpoint.region", "fs.s3a.path.style.access"
ACCESS_KEY, SECRET_KEY, SESSION_TOKEN = "fs.s3a.access.key", "fs.s3a.secret.key", "fs.s3a.session.token"
_TLS = "fs.s3a.connection.ssl.enabled"
_FLINKS = {
    ENDPOINT: options.S3_ENDPOINT,
    REGION: options.S3_REGION,
    PATH_STYLE: options.S3_PATH_STYLE,
    ACCESS_KEY: options.S3_ACCESS_KEY,
    SECRET_KEY: options.S3_SECRET_KEY,
}
_AMAZON = ("amazonaws.com", "amazonaws.com.cn")
_ANY_REGION = "us-east-1"
"""Region that a server of one's own is asked in, which has none."""


def hadoop_settings(config: Configuration, environment: Mapping[str, str]) -> dict[str, str]:
    """All that is configured, by Hadoop's keys: `spark.hadoop.fs.s3a.*` before `fs.s3a.*` before `s3.*`, and that of
    `hdfs_settings`. Has secrets.

    Raises ConfigurationError.
    """
    found = {key: text for key, option in _FLINKS.items() if (text := config.get_option(option))}
    if found[PATH_STYLE] == "auto":
        del found[PATH_STYLE]
    _check_url(found.get(ENDPOINT, ""))
    if ENDPOINT not in found and environment.get("AWS_ENDPOINT_URL"):
        found[ENDPOINT] = environment["AWS_ENDPOINT_URL"]
    found.update({key: text for key, text in config.items() if key.startswith(PREFIX)})
    for key, text in config.items():
        if key.startswith(f"spark.hadoop.{PREFIX}"):
            found[key.removeprefix("spark.hadoop.")] = text
    if found.get(ENDPOINT) and not is_amazons(found[ENDPOINT]):
        found.setdefault(PATH_STYLE, "true")
        found.setdefault(REGION, environment.get("AWS_REGION") or _ANY_REGION)
    return found | hdfs_settings(config, environment)


def spark_settings(hadoop: Mapping[str, str]) -> dict[str, str]:
    """The same, as Spark is given it when it starts."""
    return {f"spark.hadoop.{key}": text for key, text in hadoop.items()}


@dataclasses.dataclass(frozen=True, slots=True)
class S3Access:
    """What a client of our own needs of `hadoop_settings`. Empty: as the environment says."""

    endpoint: str
    region: str
    access_key: str
    secret_key: str = dataclasses.field(repr=False)
    session_token: str = dataclasses.field(repr=False)
    path_style: bool

    @classmethod
    def of(cls, hadoop: Mapping[str, str]) -> "S3Access":
        endpoint = hadoop.get(ENDPOINT, "")
        if endpoint and "://" not in endpoint:
            endpoint = f"{'http' if hadoop.get(_TLS) == 'false' else 'https'}://{endpoint}"
        return cls(
            endpoint,
            hadoop.get(REGION, ""),
            hadoop.get(ACCESS_KEY, ""),
            hadoop.get(SECRET_KEY, ""),
            hadoop.get(SESSION_TOKEN, ""),
            hadoop.get(PATH_STYLE, "").lower() == "true",
        )

    def obstore(self) -> dict[str, Any]:
        """Settings of the library `obstore`."""
        named = {
            "endpoint": self.endpoint,
            "region": self.region,
            "access_key_id": self.access_key,
            "secret_access_key": self.secret_key,
            "session_token": self.session_token,
        }
        return {name: text for name, text in named.items() if text}


def _check_url(endpoint: str) -> None:
    parts = urlsplit(endpoint)
    if endpoint and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ConfigurationError(f"{options.S3_ENDPOINT.key}: {endpoint!r} is no URL like https://HOST:PORT")


def is_amazons(endpoint: str) -> bool:
    host = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}").hostname or ""
    return any(host == name or host.endswith(f".{name}") for name in _AMAZON)
