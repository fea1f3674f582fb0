"""Where a savepoint is, or is to be: the contract, and what serves a location. `DirectoryPlace`, `BucketPlace` and `HdfsPlace` are
the three."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from firesteel.adapters.spark.streams.snapshots.bucketplace import BucketPlace
from firesteel.adapters.spark.streams.snapshots.directoryplace import DirectoryPlace
from firesteel.adapters.spark.streams.snapshots.errors import StorageRefused
from firesteel.adapters.spark.streams.snapshots.hdfsplace import HdfsPlace
from firesteel.adapters.spark.streams.snapshots.manifest import SavepointFile, SavepointManifest
from firesteel.adapters.storage.errors import TargetRefused
from firesteel.adapters.storage.schemes import SCHEMES, scheme_name
from firesteel.adapters.storage.serving import NOTHING_SET, hdfs_of, keys_of
from firesteel.model.options import ConfigurationError


class SavepointPlace(Protocol):
    """The place of one savepoint; as a text, its location. Names of files are relative to it.

    Blocking. Raises a SnapshotError for what the storage does not do, OSError for what this machine's disk does not.
    """

    @property
    def path(self) -> str:
        """An absolute path that stands for it in files which name others so."""

    @property
    def queries(self) -> str:
        """The directory of the queries in a savepoint that is made here."""

    def is_taken(self) -> bool:
        """Whether a new savepoint can't be made here, as there is something."""

    def making(self, checkpoints: Sequence[str]) -> AbstractContextManager[Path]:
        """A hidden directory of this machine in which a savepoint of these `checkpoints` is made. In the end it is removed."""

    def publish(self, made: Path, manifest: SavepointManifest, is_wanted: Callable[[], bool]) -> SavepointManifest:
        """Have what was made be a savepoint, whole and in one step; returns its manifest. `is_wanted` is asked before that.
        Raises SavepointGivenUp, TargetTaken."""

    def replace_manifest(self, manifest: SavepointManifest) -> None:
        """Of the savepoint that is here."""

    def read(self, name: str) -> bytes:
        """Raises FileNotFoundError or NotADirectoryError."""

    def sizes(self, names: Collection[str]) -> Mapping[str, int]:
        """Bytes of those of these files that are here."""

    def digest(self, file: SavepointFile) -> str:
        """SHA-256 of what is here by that name and of that size; empty where it is gone."""

    def fetched(self, directory: str, files: Sequence[SavepointFile], beside: Path) -> AbstractContextManager[Path]:
        """A directory of this machine that has these files of `directory`, until the end; what it takes is made in the directory
        `beside`, hidden. Files that had to be copied are what the manifest says. Raises SavepointDamaged."""

    def names(self) -> list[str]:
        """All files that are here, but for hidden ones that come with looking at it, or with its making."""

    def remove(self, names: Iterable[str]) -> None:
        """Delete all of these, and the place: the manifest first, so that no half a savepoint is left."""

    def claim(self, data: bytes) -> None:
        """Have the claim say so, unless there is one."""

    def give_back(self) -> None:
        """Remove the claim, if there is one."""


Location = str | SavepointPlace


def place_at(location: Location, settings: Mapping[str, str] = NOTHING_SET) -> SavepointPlace:
    """What serves savepoints there: an absolute path, `file:`, `s3://`, `s3a://` or `hdfs://`. Raises StorageUnsupported,
    StorageRefused."""
    if not isinstance(location, str):
        return location
    scheme = SCHEMES.get(scheme_name(location))
    try:
        match scheme.ours if scheme is not None else "":
            case "s3":
                return BucketPlace(location, keys_of(location, settings))
            case "hdfs":
                return HdfsPlace(location, hdfs_of(location, settings))
            case _:
                return DirectoryPlace(location)
    except (TargetRefused, ConfigurationError) as error:
        raise StorageRefused(location, error) from None
