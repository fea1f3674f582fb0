"""A bucket for savepoints: in memory, and of a server."""

from firesteel.adapters.spark.streams.snapshots.bucketplace import BucketPlace
from firesteel.adapters.storage.keys import Keys
from firesteel.adapters.storage.s3settings import hadoop_settings
from firesteel.model.options import Configuration

ROOT = "sp/savepoint-012345-1"
URI = f"s3://firesteel/{ROOT}"


def settings(url: str) -> dict[str, str]:
    config = Configuration({"s3.endpoint": url, "s3.access-key": "key", "s3.secret-key": "secret"})
    return hadoop_settings(config, {})


def at(keys: Keys, location: str = URI) -> BucketPlace:
    return BucketPlace(location, keys, wait=lambda seconds: None)


def names(keys: Keys) -> list[str]:
    return [each.key for each in keys.found("")]
