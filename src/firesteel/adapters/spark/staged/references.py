"""References to what is staged and is no directory, as text: they travel where paths of staged directories do.

The master takes both for names; a worker that is given one finds in it all that it needs to commit or remove what it
stands for. `firesteel-jdbc:` names a table in a database, `firesteel-table:` files for a table of Spark's catalog,
`firesteel-versioned:` files with rows for a table of Delta or Iceberg, `firesteel-two-phase:` what a user's own sink has
said of what it has written.
"""

import base64
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from firesteel.adapters.spark.wire import SessionName, SparkAddress
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import Artifact
from firesteel.model.stored import StoredRecord
from firesteel.model.tasks import SinkCommit

JDBC_SCHEME = "firesteel-jdbc"
TWO_PHASE_SCHEME = "firesteel-two-phase"
TABLE_SCHEME = "firesteel-table"
VERSIONED_SCHEME = "firesteel-versioned"
SCHEMES = (JDBC_SCHEME, TABLE_SCHEME, TWO_PHASE_SCHEME, VERSIONED_SCHEME)
REFERENCE_BYTES_MAX = 4 * 1024 * 1024

S = TypeVar("S", bound=msgspec.Struct)


class ReferenceTooLarge(ValueError):
    """The reference would not fit into messages and journal."""

    def __init__(self, size: int) -> None:
        super().__init__(f"{size:,} bytes, and the limit is {REFERENCE_BYTES_MAX:,}")


class SinkWork(msgspec.Struct, frozen=True, kw_only=True):
    """Given to a process that commits sink output (`commit_id` set), or removes it."""

    references: tuple[str, ...]
    """References of all subtasks."""
    commit_id: str = ""
    mode: str = ""
    code: tuple[str, ...] = ()
    """Directories of the job's code on this machine, first on the module path."""
    interpreter: str = ""
    """Path of the job's own interpreter on this machine; empty where it has none."""
    python_executable: str = ""
    """The job's name of it."""
    secrets: Mapping[str, str] = {}
    """Connection properties that are written nowhere."""
    endpoint: SparkAddress | None = None
    """The Spark backend whose catalog has the table."""
    session: SessionName | None = None
    """The session there, which the worker closes should this process not; None: any."""
    settings: Mapping[str, str] = {}
    """The worker's own, of that session."""


class WrittenByUser(StoredRecord, frozen=True, kw_only=True):
    """Output that one subtask has written with a user's own sink."""

    job_id: JobID
    artifacts: tuple[Artifact, ...]
    python_executable: str = ""
    """The job's own interpreter, by `python.executable`."""
    sink: bytes
    """The sink, pickled: opened in task processes only."""
    committable: bytes
    """Return value of `write`: MessagePack of JSON values and bytes."""


class StagedFiles(StoredRecord, frozen=True, kw_only=True):
    """Files that one subtask has staged for a table of Spark's catalog."""

    table: str
    """Full name of the table."""
    location: str
    """Directory of the table; the staged files lie beside it."""
    is_new: bool
    """There was no such table when they were staged."""
    schema: str
    """Spark's, as JSON: of the rows."""
    partition_columns: tuple[str, ...]
    options: Mapping[str, str]
    """Options of the table, if it is to be made."""
    files: SinkCommit
    """Commit of the files, as if the directory were the target."""
    settings: Mapping[str, str] = {}
    """Settings of Spark by which the session of the attempt knew the catalog."""


class StagedRows(StoredRecord, frozen=True, kw_only=True):
    """Rows that one subtask has staged, as Parquet files, for a versioned table."""

    table: str
    """Full name of the table."""
    format: str
    """`delta` or `iceberg`."""
    is_new: bool
    """There was no such table when they were staged."""
    schema: str
    """Spark's, as JSON: of the rows."""
    partition_columns: tuple[str, ...]
    """Of the table, if it is to be made."""
    key: tuple[str, ...] = ()
    """Columns that are the key of mode `upsert`."""
    options: Mapping[str, str]
    """Options of the writer, and properties of the table, if it is to be made."""
    settings: Mapping[str, str]
    """Settings of Spark by which the session of the attempt knew the table's catalog."""
    files: SinkCommit
    """The staged files, and the mode. The target's directory is what they lie beside."""


def directory_of(location: str) -> str:
    """The directory to delete where that is all it takes to remove what is staged; else `location` as it is."""
    scheme = scheme_of(location)
    if scheme == TABLE_SCHEME:
        return decode(location, StagedFiles).files.staging
    return decode(location, StagedRows).files.staging if scheme == VERSIONED_SCHEME else location


def scheme_of(location: str) -> str:
    """The scheme of a reference; empty for a directory."""
    scheme = location.partition(":")[0]
    return scheme if scheme in SCHEMES else ""


def encode(scheme: str, content: msgspec.Struct) -> str:
    """Raises ReferenceTooLarge."""
    text = f"{scheme}:{base64.urlsafe_b64encode(msgspec.json.encode(content)).decode()}"
    if len(text) > REFERENCE_BYTES_MAX:
        raise ReferenceTooLarge(len(text))
    return text


def decode(reference: str, kind: type[S]) -> S:
    """The record of a `kind` that `encode` made the reference of."""
    return msgspec.json.decode(base64.urlsafe_b64decode(reference.partition(":")[2]), type=kind)
