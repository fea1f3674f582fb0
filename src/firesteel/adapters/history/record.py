"""What is kept of one job: a file with its summary, its result and its view, apart from what it has printed."""

import io
import re
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from firesteel.adapters.history.archivefile import Damaged, packed, read_extents
from firesteel.model.ids import JobID
from firesteel.model.stored import UNREADABLE
from firesteel.model.views import JobResult, JobSummary, JobView, summary_of

JOB_SUFFIX, LOGS_SUFFIX = ".job", ".logs"
"""Endings of the files of a job. That of its logs is written first: a job that is listed is there whole."""
_JOB_FILE = re.compile(rf"([0-9a-f]{{32}}){re.escape(JOB_SUFFIX)}")
T = TypeVar("T")


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where an archived job comes from."""

    cluster: str
    """The cluster's `high-availability.cluster-id`."""
    firesteel: str
    """Version that has written it."""
    archived_ms: int


class ArchivedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it ended. Secrets in its configuration, parameters and failures are hidden before it is written."""

    origin: Origin
    summary: JobSummary
    result: JobResult
    view: JobView


def archived_job(view: JobView, result: JobResult, origin: Origin) -> ArchivedJob:
    """What is kept of a job that has ended so."""
    shown = view.redacted()
    return ArchivedJob(origin=origin, summary=summary_of(shown), result=result.redacted(), view=shown)


def job_of_file(name: str) -> JobID | None:
    """The job whose file has that name; None for a name of something else."""
    found = _JOB_FILE.fullmatch(name)
    return JobID(found[1]) if found is not None else None


def encode_job(job: ArchivedJob) -> bytes:
    """The file of a job: an entry for each of its fields."""
    return packed({name: msgspec.msgpack.encode(getattr(job, name)) for name in job.__struct_fields__})


def decode_job(data: bytes) -> ArchivedJob:
    """Raises Damaged."""
    entries = decode_entries(data)
    return ArchivedJob(
        origin=_decoded(entries, "origin", Origin),
        summary=_decoded(entries, "summary", JobSummary),
        result=_decoded(entries, "result", JobResult),
        view=_decoded(entries, "view", JobView),
    )


def decode_summary(data: bytes) -> JobSummary:
    """The summary alone, with the cluster that the job comes from. Raises Damaged."""
    entries = decode_entries(data)
    origin = _decoded(entries, "origin", Origin)
    return msgspec.structs.replace(_decoded(entries, "summary", JobSummary), cluster=origin.cluster)


def decode_entries(data: bytes) -> dict[str, bytes]:
    """Entries of a whole file by name. Raises Damaged."""
    places = read_extents(io.BytesIO(data))
    return {name: data[place.offset : place.offset + place.length] for name, place in places.items()}


def _decoded(entries: Mapping[str, bytes], name: str, kind: type[T]) -> T:
    if name not in entries:
        raise Damaged(f"it has no {name}")
    try:
        return msgspec.msgpack.decode(entries[name], type=kind)
    except UNREADABLE as error:
        raise Damaged(f"its {name}: {error}") from None
