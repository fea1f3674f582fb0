"""What streams have on disks that outlive workers: sources, checkpoint directories, outputs, savepoints."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from firesteel.model.ids import JobID
from firesteel.testing.simulation.streams.directories import Directory, File, needed
from firesteel.testing.simulation.streams.outputs import Output

SHARED = ""
"""Where all workers find checkpoint directories."""
RETAINED = "/checkpoints"
"""Below it are checkpoints of jobs that have ended."""


@dataclass(frozen=True, slots=True)
class Source:
    """Rows that come in one after the other: what a query reads. Reading again gives the same."""

    start_ms: int
    every_ms: int
    rows: int

    def available(self, now_ms: int) -> int:
        return max(0, min(self.rows, (now_ms - self.start_ms) // self.every_ms))


@dataclass(slots=True)
class SavedQuery:
    """A query's part of a savepoint."""

    query_id: str
    batch: int
    files: dict[File, int]
    line: dict[int, int]
    wanted: tuple[File, ...]
    """What it is to have."""
    attempt: int
    """Which it was taken of."""


@dataclass(slots=True)
class SavedJob:
    """A savepoint, or the hidden directory that is to be one."""

    job_id: JobID
    queries: dict[str, SavedQuery] = field(default_factory=dict)
    manifest: tuple[str, ...] = ()
    """uids of the queries that it says it has. Empty: it has no manifest, and so is no savepoint."""


@dataclass(slots=True)
class StreamStorage:
    """`retained`: batches that Spark's retention leaves. `is_shared`: whether all workers see the checkpoints of all."""

    retained: int = 2
    is_shared: bool = True
    sources: dict[str, Source] = field(default_factory=dict)
    """By the name of an output."""
    outputs: dict[str, Output] = field(default_factory=dict)
    pipeline_of: dict[JobID, str] = field(default_factory=dict)
    """Jobs that go on from one another are one pipeline, which has outputs of its own."""
    homes: dict[tuple[str, JobID, str], dict[int, Directory]] = field(default_factory=dict)
    """Directories of a query's attempts, by where they are, the job and the uid."""
    savepoints: dict[str, SavedJob] = field(default_factory=dict)
    anew: list[tuple[JobID, str]] = field(default_factory=list)
    """Queries, by job and uid, that a later attempt has begun anew, and no oracle has looked at yet."""
    commits: int = 0
    looked: dict[tuple[JobID, str, str], bool] = field(default_factory=dict)
    """Whether the points that were told for checkpoints were whole: by job, uid and commit."""
    keeps: bool = True
    """Whether the last checkpoint of a job stays when nobody knows how it has ended."""
    vanished: dict[JobID, None] = field(default_factory=dict)
    """Jobs whose directories somebody else has deleted."""
    begun: dict[JobID, None] = field(default_factory=dict)
    """Jobs any of whose queries has ever had a directory."""
    unseen: dict[JobID, None] = field(default_factory=dict)
    """Jobs of which a worker could not say where their queries are."""

    def home(self, worker: str, job_id: JobID, uid: str) -> dict[int, Directory]:
        """Directories that a worker finds."""
        return self.homes.setdefault((SHARED if self.is_shared else worker, job_id, uid), {})

    def output(self, job_id: JobID, uid: str) -> str:
        return f"{self.pipeline_of[job_id]}/{uid}"

    def newest(self, job_id: JobID, uid: str) -> Directory | None:
        """That of the newest attempt that has one: where the query has come to."""
        found = {number: each for known in self._homes_of(job_id, uid) for number, each in known.items()}
        return found[max(found)] if found else None

    def _homes_of(self, job_id: JobID, uid: str) -> Iterator[dict[int, Directory]]:
        return (known for (_, job, of), known in self.homes.items() if job == job_id and of == uid)

    def release(self, worker: str, job_id: JobID) -> None:
        """The job is over: its directories go. Who still writes there fails."""
        place = SHARED if self.is_shared else worker
        for key in [key for key in self.homes if key[0] == place and key[1] == job_id]:
            for directory in self.homes.pop(key).values():
                directory.is_deleted = True

    def retain(self, job_id: JobID, location: str | None) -> None:
        """The job is over, and all workers see its directories: the newest points stay, as a savepoint. None: nobody knows."""
        if location is None and not (self.keeps and self.is_shared):
            return
        found = {uid: home for (_, job, uid), home in self.homes.items() if job == job_id and home}
        name = f"{RETAINED}/{job_id}/chk-0" if location is None else location
        if found and name not in self.savepoints:
            queries = {uid: _saved(max(home), home[max(home)].forked()) for uid, home in found.items()}
            self.savepoints[name] = SavedJob(job_id, queries, tuple(queries))

    def saved(self, location: str, of: JobID) -> SavedJob:
        """What is at a location, as who starts from it finds it: what stays of job `of` may have had no worker to save it yet."""
        if location.startswith(f"{RETAINED}/"):
            self.retain(of, location)
            self.release(SHARED, of)
        return self.savepoints[location]

    def uids_left(self, job_id: JobID, location: str) -> list[str]:
        """The queries in what stays of a job, or is to."""
        saved = self.savepoints.get(location)
        return (
            list(saved.queries)
            if saved
            else [uid for (_, job, uid), home in self.homes.items() if job == job_id and home]
        )


def _saved(attempt: int, point: Directory) -> SavedQuery:
    wanted = tuple(needed(point.last)) if point.last >= 0 else ()
    return SavedQuery(point.query_id, point.last, point.files, point.line, wanted, attempt)
