"""What is noted of a query beside the checkpoints of its attempts, once a job."""

import os
import uuid
from pathlib import Path

import msgspec

from firesteel.model.streams import StreamOutput

_OUTPUT = "output"
"""The directory that Spark's own file sink writes to, whose log fits the query."""
_SINK = "sink"
"""Where the query writes, by whatever sink."""
_CLAIMED = "claimed"
"""The directories of `fs.stream_files` and `fs.fan_out` that the query has claimed."""
_FINGERPRINT = "fingerprint"
"""That of the query's plan."""
_ORIGIN = "origin"
"""The savepoint that the query's job has started from."""


class Origin(msgspec.Struct, frozen=True):
    """A savepoint that a job has started from: a query that has never begun has its state there, and nowhere else."""

    location: str
    queries: dict[str, str]
    """Sinks of the job that it has state of, by uid, each with the id that its query is to have; empty: that of the savepoint."""


def output_of(home: Path) -> str | None:
    """The output of the query whose attempts have their checkpoints in `home`, if it is a file sink's."""
    return _noted(home / _OUTPUT)


def note_output(home: Path, output: str) -> None:
    """Have `output_of` know it, from here on."""
    _note(home / _OUTPUT, output)


def sink_of(home: Path) -> StreamOutput | None:
    """Where the query whose attempts have their checkpoints in `home` writes; None before it is known."""
    noted = _noted(home / _SINK)
    return msgspec.json.decode(noted, type=StreamOutput) if noted is not None else None


def note_sink(home: Path, output: StreamOutput) -> None:
    """Have `sink_of` know it, from here on."""
    _note(home / _SINK, msgspec.json.encode(output).decode())


def claimed_by(home: Path) -> dict[str, int]:
    """Directories that the query whose attempts have their checkpoints in `home` has claimed, each with the first batch that
    it has had since."""
    noted = _noted(home / _CLAIMED)
    return msgspec.json.decode(noted, type=dict[str, int]) if noted is not None else {}


def note_claimed(home: Path, root: Path, first_batch: int) -> None:
    """Have `claimed_by` know it, from here on; what it knows of the directory stays."""
    _note(home / _CLAIMED, msgspec.json.encode({str(root): first_batch, **claimed_by(home)}).decode())


def fingerprint_of(home: Path) -> str | None:
    """That of the query whose attempts have their checkpoints in `home`: empty if it can't be told, None before it is known."""
    return _noted(home / _FINGERPRINT)


def note_fingerprint(home: Path, fingerprint: str) -> None:
    """Have `fingerprint_of` know it, from here on."""
    _note(home / _FINGERPRINT, fingerprint)


def origin_of(home: Path) -> Origin | None:
    """The savepoint that the job has started from whose query has its checkpoints in `home`; None where there is none."""
    noted = _noted(home / _ORIGIN)
    return msgspec.json.decode(noted, type=Origin) if noted is not None else None


def note_origin(home: Path, origin: Origin) -> None:
    """Have `origin_of` know it, from here on."""
    _note(home / _ORIGIN, msgspec.json.encode(origin).decode())


def _noted(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):  # beside the directories of queries there are files, too
        return None


def _note(path: Path, text: str) -> None:
    made = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    made.write_text(text, encoding="utf-8")
    os.rename(made, path)
