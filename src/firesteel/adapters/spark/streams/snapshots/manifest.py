"""The manifest of a savepoint: what is in it, and what it takes to go on from it. Names of files are relative to it.

Written last: a directory without one is no savepoint. A golden file holds the format
(tests/adapters/snapshots/golden/savepoint.json).
"""

import secrets
from collections.abc import Mapping
from pathlib import Path

import msgspec

from firesteel.adapters.spark.streams.snapshots.errors import NoSavepoint
from firesteel.adapters.spark.streams.snapshots.points import CommittedPoint
from firesteel.model.stored import UNREADABLE

MANIFEST = "savepoint.json"
CLAIM_FILE = "claim/job.json"
"""Of a savepoint that is a job's own: says which job's."""
QUERIES = "queries"
"""The directory of the queries' parts; in a bucket more follows in its name."""
VERSION = 1
_JOB_DIGITS, _RANDOM_BYTES = 6, 6


class SavepointFile(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    size_bytes: int
    sha256: str = ""
    """Empty for a file that was linked and not read yet: `seal` reads it."""

    def wrong_size(self, sizes: Mapping[str, int]) -> str:
        """What is wrong with it where files have these sizes in bytes, by name; empty if nothing is."""
        size = sizes.get(self.name)
        if size is None:
            return f"{self.name} is missing"
        return f"{self.name} has {size} bytes instead of {self.size_bytes}" if size != self.size_bytes else ""


class SinkLog(msgspec.Struct, frozen=True, kw_only=True):
    """What the log of Spark's own file sink held at the point."""

    output: str
    """The directory the sink wrote to."""
    directory: str
    """Where the log's files are in the savepoint."""


class SavepointQuery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One streaming query: a checkpoint directory that Spark starts from."""

    uid: str
    """Of the sink's function."""
    directory: str
    point: CommittedPoint
    files: tuple[SavepointFile, ...]
    sink_log: SinkLog | None = None
    fingerprint: str = ""
    """What restoring compares, as whoever took the savepoint has written it."""
    attempt: int = -1
    """Which one of the job's it was taken of. -1: not known."""

    @property
    def log_files(self) -> list[SavepointFile]:
        """Those of `sink_log`, which belong to no checkpoint."""
        return [each for each in self.files if self._is_of_log(each)]

    @property
    def checkpoint_files(self) -> list[SavepointFile]:
        """All others."""
        return [each for each in self.files if not self._is_of_log(each)]

    def _is_of_log(self, file: SavepointFile) -> bool:
        return self.sink_log is not None and file.name.startswith(f"{self.sink_log.directory}/")


class SavepointVertex(msgspec.Struct, frozen=True, kw_only=True):
    uid: str
    name: str


class SavepointHeader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of the job before anything is copied."""

    job_id: str
    job_name: str
    spark_version: str
    created_ms: int
    vertices: tuple[SavepointVertex, ...] = ()
    fingerprints: dict[str, str] = {}
    """By the uid of the query."""
    attempts: dict[str, int] = {}
    """The same."""


class SavepointManifest(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    job_id: str
    job_name: str
    spark_version: str
    created_ms: int
    vertices: tuple[SavepointVertex, ...]
    queries: tuple[SavepointQuery, ...]

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for query in self.queries for file in query.files)

    @property
    def is_sealed(self) -> bool:
        """Whether every file has its digest."""
        return all(file.sha256 for query in self.queries for file in query.files)

    @property
    def files(self) -> list[SavepointFile]:
        """All files of all queries, with names in the savepoint."""
        return [
            msgspec.structs.replace(file, name=f"{query.directory}/{file.name}")
            for query in self.queries
            for file in query.files
        ]

    def with_digests(self, sha256: Mapping[str, str]) -> "SavepointManifest":
        """The same, where files have these digests, by name in the savepoint."""
        queries = (
            msgspec.structs.replace(
                query,
                files=tuple(
                    msgspec.structs.replace(file, sha256=sha256[f"{query.directory}/{file.name}"])
                    for file in query.files
                ),
            )
            for query in self.queries
        )
        return msgspec.structs.replace(self, queries=tuple(queries))


def savepoint_name(job_id: str) -> str:
    """The name of a new savepoint's directory, in the form of Flink's."""
    return f"savepoint-{job_id[:_JOB_DIGITS]}-{secrets.token_hex(_RANDOM_BYTES)}"


def encode(manifest: SavepointManifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1)


def decode(data: bytes, path: str) -> SavepointManifest:
    """Raises NoSavepoint."""
    try:
        version = msgspec.json.decode(data, type=_Versioned).version
        if version != VERSION:
            raise NoSavepoint(path, f"its format is {version}, and this firesteel knows {VERSION}")
        manifest = msgspec.json.decode(data, type=SavepointManifest)
    except UNREADABLE as error:
        raise NoSavepoint(path, f"{MANIFEST} can't be read ({error})") from None
    names = (name for query in manifest.queries for name in (query.directory, *(file.name for file in query.files)))
    for name in names:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise NoSavepoint(path, f"{MANIFEST} names {name}, which is outside of it")
    return manifest


class _Versioned(msgspec.Struct):
    version: int
