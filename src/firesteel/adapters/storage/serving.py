"""What serves a URI, by the table in `schemes`: a store for sinks, or directories for whatever Spark writes and reads."""

from collections.abc import Mapping

from firesteel.adapters.storage.directories import Directories
from firesteel.adapters.storage.keys import Keys, Patient
from firesteel.adapters.storage.localdirectories import LocalDirectories
from firesteel.adapters.storage.localsinks import LocalSinks
from firesteel.adapters.storage.schemes import bucket_and_path, scheme_of
from firesteel.adapters.storage.sinkstore import SinkStore

NOTHING_SET: Mapping[str, str] = {}
"""`settings`, here and elsewhere, are those of `hadoop_settings`."""
_BY_SPARK = "; let Spark write there itself, with df.write in a sink that is declared idempotent=True"


def sink_store(uri: str, settings: Mapping[str, str] = NOTHING_SET) -> SinkStore:
    """What serves sinks at this URI. Raises TargetRefused."""
    if scheme_of(uri, instead=_BY_SPARK).ours == "local":
        return LocalSinks()
    from firesteel.adapters.storage.objectsinks import ObjectSinks

    return ObjectSinks(_keys_of(uri, settings))


def directories_at(uri: str, settings: Mapping[str, str] = NOTHING_SET, *, patient: bool = True) -> Directories:
    """What serves directories at this URI; it waits for a busy storage if it is `patient`. Raises TargetRefused."""
    if scheme_of(uri).ours == "local":
        return LocalDirectories()
    from firesteel.adapters.storage.objectdirectories import ObjectDirectories

    keys = _keys_of(uri, settings)
    return ObjectDirectories(Patient(keys, lambda: None) if patient else keys)


def _keys_of(uri: str, settings: Mapping[str, str]) -> Keys:
    from firesteel.adapters.storage.s3keys import S3Keys
    from firesteel.adapters.storage.s3settings import S3Access

    bucket, _ = bucket_and_path(uri)
    return S3Keys(bucket, S3Access.of(settings))
