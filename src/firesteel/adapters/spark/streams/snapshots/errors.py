"""What goes wrong with points and savepoints. Every text says what to do."""


class SnapshotError(Exception):
    """The base of all of them."""


class NothingCommitted(SnapshotError):
    """The query has committed no batch yet: there is no point to copy. Nobody's fault."""

    def __init__(self, checkpoint: str) -> None:
        super().__init__(f"{checkpoint} has no committed batch yet; ask again when the query has finished one")
        self.checkpoint = checkpoint


class CheckpointMissing(SnapshotError):
    """There is no such directory: another worker has it, or somebody has deleted it."""

    def __init__(self, checkpoint: str) -> None:
        super().__init__(
            f"{checkpoint} is not here: give execution.checkpointing.dir a directory that all workers share; if it is"
            " one, somebody has deleted it"
        )
        self.checkpoint = checkpoint


class SnapshotOvertaken(SnapshotError):
    """The query's retention deleted files faster than they could be taken, each time. The configuration's fault."""

    def __init__(self, checkpoint: str, batch: int, missing: str, attempts: int) -> None:
        tried = f"{attempts} times, at newer batches" if attempts > 1 else "once"
        super().__init__(
            f"the point after batch {batch} of {checkpoint} could not be copied (tried {tried}): {missing} was deleted"
            " by the query's own retention meanwhile; raise spark.sql.streaming.minBatchesToRetain, or keep savepoints on"
            " the file system of the checkpoint, where files are linked"
        )
        self.checkpoint, self.batch, self.missing, self.attempts = checkpoint, batch, missing, attempts


class CheckpointDamaged(SnapshotError):
    """A file that the point is made of is not there, and nothing has overtaken it. Whoever removed it is at fault."""

    def __init__(self, checkpoint: str, batch: int, missing: str) -> None:
        super().__init__(
            f"the point after batch {batch} of {checkpoint} can't be copied: {missing} is not there, or not whole; Spark"
            " could not restart the query from it either: restore the query from an earlier savepoint"
        )
        self.checkpoint, self.batch, self.missing = checkpoint, batch, missing


class CheckpointUnknown(SnapshotError):
    """The checkpoint is written in a way that this version does not know."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(f"{path}: {what}; it was written by a Spark that is newer than the one firesteel is made for")
        self.path, self.what = path, what


class StorageUnsupported(SnapshotError):
    """Points are copied between directories of this machine, or mounted on it. The caller's fault."""

    def __init__(self, location: str) -> None:
        super().__init__(
            f"{location} is no directory of this machine: checkpoints of streams need a path or a file: URI that workers"
            " share, and savepoints that, s3://BUCKET/PATH or hdfs://HOST:PORT/PATH"
        )
        self.location = location


class TargetTaken(SnapshotError):
    """There is something where the copy is to be. The caller's fault."""

    def __init__(self, target: str) -> None:
        super().__init__(f"{target} exists already; name a directory that does not")
        self.target = target


class TargetUnwritable(SnapshotError):
    """The copy could not be written: a full disk, no permission. Nothing was left behind."""

    def __init__(self, target: str, cause: OSError) -> None:
        super().__init__(
            f"{target} could not be written ({cause}): free space there or name another directory; what"
            " had been written was removed"
        )
        self.target, self.cause = target, cause


class StorageFailed(SnapshotError):
    """The storage of a savepoint does not answer, or is too busy. It may answer in a minute."""

    def __init__(self, path: str, cause: Exception) -> None:
        super().__init__(f"savepoint {path} can't be reached: {cause}")
        self.path, self.cause = path, cause


class StorageRefused(SnapshotError):
    """The storage of a savepoint says no, and will again: no bucket, no permission, no credentials. The text says what to do."""

    def __init__(self, path: str, cause: Exception) -> None:
        super().__init__(f"savepoint {path} can't be reached: {cause}")
        self.path, self.cause = path, cause


class NoSavepoint(SnapshotError):
    """The directory is no savepoint of firesteel, or not a whole one. The caller's fault."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(
            f"{path} is no savepoint of firesteel: {why}; name a directory that `firesteel savepoint` told"
        )
        self.path, self.why = path, why


class SavepointGivenUp(SnapshotError):
    """It was given up, and what there is of it is not what is wanted now. Nobody's fault."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}; ask for a new savepoint")
        self.path, self.why = path, why


class SavepointDamaged(SnapshotError):
    """Files of a savepoint are missing or are not what was written. Whoever moved or touched it is at fault."""

    def __init__(self, path: str, problems: tuple[str, ...]) -> None:
        shown = "; ".join(problems[:5]) + (f"; and {len(problems) - 5} more" if len(problems) > 5 else "")
        super().__init__(
            f"savepoint {path} is damaged: {shown}; copy it again from where it is whole, or use another one"
        )
        self.path, self.problems = path, problems


class SavepointShared(SnapshotError):
    """The directory of a savepoint holds files of others; they are not deleted. The caller decides."""

    def __init__(self, path: str, others: tuple[str, ...]) -> None:
        super().__init__(
            f"{path} was not disposed of: beside the savepoint it holds {', '.join(others[:3])}"
            f"{' and more' if len(others) > 3 else ''}; move those, then dispose of it again"
        )
        self.path, self.others = path, others


class SavepointClaimed(SnapshotError):
    """The savepoint is another job's, which disposes of it. The caller's fault."""

    def __init__(self, path: str, owner: str, mark: str) -> None:
        super().__init__(
            f"savepoint {path} was claimed by job {owner}, which disposes of it when it needs it no more: start from another"
            f" one (firesteel savepoint {owner}), or, if that job is over, delete {mark}"
        )
        self.path, self.owner = path, owner


class QueriesUnbegun(SnapshotError):
    """Queries of a job have never begun, and what they were to begin from is not to be had. Whoever deleted it is at fault."""

    def __init__(self, job_id: str, savepoint: str, uids: tuple[str, ...], cause: SnapshotError) -> None:
        super().__init__(
            f"queries of job {job_id} have never begun ({', '.join(uids)}), and their state in savepoint {savepoint}, which it"
            f" was started from, is not to be had: put that back and try again, or start from another savepoint ({cause})"
        )
        self.job_id, self.savepoint, self.uids, self.cause = job_id, savepoint, uids, cause


class SparkTooOld(SnapshotError):
    """The savepoint was written by a later Spark, whose formats this one may not know. The caller's fault."""

    def __init__(self, path: str, saved: str, here: str) -> None:
        super().__init__(
            f"savepoint {path} was taken with Spark {saved}, and this worker has Spark {here}: Spark does not go back to an"
            f" earlier version; use workers with Spark {saved} or a later one"
        )
        self.path, self.saved, self.here = path, saved, here


class QueryUnknown(SnapshotError):
    """The savepoint has no query of that uid. The caller's fault."""

    def __init__(self, path: str, uid: str, known: tuple[str, ...]) -> None:
        super().__init__(
            f"savepoint {path} has no query {uid!r}; it has {', '.join(known) or 'none'}: give the function that uid, or"
            " start without its state"
        )
        self.path, self.uid, self.known = path, uid, known


class OutputRefused(SnapshotError):
    """What Spark's own file sink has in its output does not fit the savepoint. The text names the reason."""

    def __init__(self, output: str, why: str) -> None:
        super().__init__(f"{output} can't be gone on with from this savepoint: {why}")
        self.output, self.why = output, why
