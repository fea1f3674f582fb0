"""Remains of an embedded cluster that was killed, beside the targets of its sinks: `python -m ... DIRECTORY`.

Its jobs have died with it, and nobody else will finish them. The supervisor of its JVM runs this before it deletes the
cluster's directory: commits that were begun are carried to their end, so that no reader is left with half of one; what
was only staged is removed. A user's own sinks are left alone: their code is not run behind their backs.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from firesteel.adapters.spark.refusals import UserError
from firesteel.adapters.spark.sinks import jdbccommit
from firesteel.adapters.spark.sinks.database import DatabaseError
from firesteel.adapters.spark.sinks.tablecommit import files_of
from firesteel.adapters.spark.staged.notes import SINKS, STAGED, noted_storage, whole_of
from firesteel.adapters.spark.staged.references import (
    JDBC_SCHEME,
    TABLE_SCHEME,
    VERSIONED_SCHEME,
    SinkWork,
    StagedFiles,
    decode,
    directory_of,
    scheme_of,
)
from firesteel.adapters.storage.errors import CommitRefused
from firesteel.adapters.storage.sinks import commit_sink, remove_location
from firesteel.model.ids import JobID
from firesteel.model.tasks import SinkCommit
from firesteel.runtime.ports import TaskFailedError


def main() -> None:
    workers = [(notes, noted_storage(notes)) for notes in sorted(Path(sys.argv[1]).glob(f"*/{SINKS}"))]
    for notes, storage in workers:
        for note in sorted(notes.glob("intended/*.json")):
            commit = msgspec.json.decode(note.read_bytes(), type=SinkCommit)
            _try(commit.target, commit.stagings, commit, storage)
    for notes, storage in workers:
        for location in _staged(notes):
            _try(location, (location,), None, storage)


def _staged(notes: Path) -> Iterator[str]:
    for note in sorted(notes.glob(f"{STAGED}/*")):
        job_id = JobID(note.name.partition("-")[0])
        yield from whole_of(job_id, note.read_text(encoding="utf-8").splitlines())


def _try(what: str, locations: tuple[str, ...], commit: SinkCommit | None, storage: dict[str, str]) -> None:
    """Commit, or remove without one. What can't be done is said in the JVM's log, which is soon gone too."""
    try:
        if scheme_of(locations[0]) == VERSIONED_SCHEME:
            for each in locations:  # no catalog is there: the table has all of the rows already, or none
                remove_location(directory_of(each))
        elif scheme_of(locations[0]) == TABLE_SCHEME:
            for each in locations:  # the catalog is not there; whole files are, once they have begun to be moved
                staged = decode(each, StagedFiles)
                if commit is not None and not staged.is_new:
                    commit_sink(files_of(commit))
                remove_location(staged.files.staging)
        elif scheme_of(locations[0]) == JDBC_SCHEME:
            work = SinkWork(references=locations)
            if commit is not None:
                work = SinkWork(references=locations, commit_id=commit.commit_id, mode=commit.mode)
            jdbccommit.perform(msgspec.json.encode(work))
        elif not scheme_of(locations[0]):
            if commit is not None:
                commit_sink(commit, storage)
            else:
                remove_location(locations[0], storage)
    except (TaskFailedError, CommitRefused, DatabaseError, UserError, OSError) as error:
        print(f"{what[:200]}: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
