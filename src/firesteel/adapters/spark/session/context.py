"""The context of an attempt: what a function sees of it (`context`), and what its process knows of it."""

import contextlib
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from firesteel.adapters.spark.refusals import SinkRefused
from firesteel.adapters.spark.session.streamoutputs import StreamOutputs
from firesteel.core.execution.sinktargets import clash_of, clash_sentence
from firesteel.model.ids import JobVertexID
from firesteel.model.jobgraph import Artifact, Function
from firesteel.model.options import RESULT_MAX_SIZE
from firesteel.model.splits import DrawnSplits
from firesteel.model.tasks import SinkCommit, TaskDeployment


class RuntimeContext(msgspec.Struct, frozen=True, kw_only=True):
    """The argument `context` of a pipeline function."""

    job_id: str
    job_name: str
    attempt: int
    """0-based: greater than 0 when the region runs again."""
    subtask: int
    parallelism: int
    parameters: Mapping[str, Any]


class ReportStaging(Protocol):
    """Tells the worker what is about to be written outside the work directory; secrets stay in its memory."""

    def __call__(self, location: str, secrets: Mapping[str, str] = {}, /) -> None: ...


class AttemptContext:
    """The attempt this process runs: where it stages and what it has staged so far."""

    def __init__(
        self,
        deployment: TaskDeployment,
        client_directory: Path,
        report_staging: ReportStaging,
        *,
        result_max_bytes: int = RESULT_MAX_SIZE.default << 20,
        storage: Mapping[str, str] = {},
        jvm_cores: int = 1,
    ) -> None:
        self.deployment, self.client_directory = deployment, client_directory
        self.report_staging = report_staging
        """Called before anything is staged, so that the worker can remove it whatever becomes of this process."""
        self.allow_write: Callable[[str], None] = lambda where: None
        """Called with the path or table that an fs.write_* is about to have Spark write: no other write is allowed to a
        function that sees a share of the rows."""
        self.withdraw_write: Callable[[str], None] = lambda where: None
        """Called when it has been written."""
        self.draw_splits: Callable[[int], DrawnSplits] = _no_splits
        """Waits for the attempt's draw of this number."""
        self.caches_unseen: Callable[[], None] = lambda: None
        """Called before something is made that has Spark cache rows from another process than this one, which may be killed
        before it has released them."""
        self.result_max_bytes = result_max_bytes
        self.storage = storage
        """Settings of storages, with their secrets."""
        self.jvm_cores = jvm_cores
        """Cores of the JVM of ours that Spark's tasks run in, and so know our classes; 0 where they run elsewhere."""
        self.sinks: list[SinkCommit] = []
        self.vertex_id = JobVertexID("")
        self.function: Function | None = None
        self.runtime: RuntimeContext | None = None
        self.checkpoints: Mapping[str, str] = {}
        """Directories of a streaming attempt's checkpoints, by the uid of the sink."""
        self.outputs = StreamOutputs()
        """Where a streaming attempt writes."""
        self.settings: Mapping[str, str] = {}
        """Settings that the session was opened with: Spark shows it none that look secret."""
        self.instant_ms = 0
        """Of the job: tells it from a former one of its id."""
        self.is_backend_shared = True
        """Whether what it commits is committed in the same JVM."""
        self.artifacts: tuple[Artifact, ...] = ()
        """The job's code, for whoever commits what its sinks have written."""
        self.python_executable = ""
        """The job's own interpreter, for him as well."""

    def check_target(self, commit: SinkCommit) -> None:
        """Before anything is written there. Raises SinkRefused where this attempt has staged what the two would spoil."""
        for earlier in self.sinks:
            why = clash_of(earlier, commit)
            if why:
                raise SinkRefused(clash_sentence(earlier, commit, why))

    def new_commit_id(self) -> str:
        """Of what is about to be staged. Like no other: a later job may have the id of a former one, and sinks keep the ids of
        commits for good."""
        return uuid.uuid4().hex

    @property
    def name(self) -> str:
        """`region-attempt`: unique within the job."""
        return f"{self.deployment.attempt.region}-{self.deployment.attempt.attempt}"


def _no_splits(number: int) -> DrawnSplits:
    raise AssertionError(f"draw {number} of an attempt that has no input splits")


class CurrentAttempt:
    """The attempt whose function this process is calling: for the function, and for all threads that it begins."""

    def __init__(self) -> None:
        self._attempt: AttemptContext | None = None
        self._caller = 0
        """The thread that calls functions, once it has called one."""
        self._turn = threading.RLock()
        self._writing: set[int] = set()
        """Threads that are about to write for the function, or do."""

    @contextlib.contextmanager
    def calling(self, attempt: AttemptContext) -> Iterator[None]:
        """While a function of it is called. Raises SinkRefused when that has returned and threads of it still write: nobody
        waits for those, and their rows would be in no commit."""
        self._attempt, self._caller = attempt, threading.get_ident()
        try:
            yield
            if self._writing:
                raise SinkRefused(f"{_named(attempt)} has returned while threads of it still write: {_WAIT}")
        finally:
            self._attempt = None

    def get(self) -> AttemptContext | None:
        """None outside a pipeline, where a write is Spark's alone. Raises SinkRefused in a thread of a function that has
        returned, and in one that Spark calls with the batches of a stream."""
        if self._attempt is None and _is_called_with_batches():
            raise SinkRefused(
                "fs.write_* are for the commit of a job, and a batch of a stream has none: write it with batch.write, which is"
                " done again when the batch is; or write by fs.stream_files or fs.fan_out, once"
            )
        if self._attempt is None and self._caller not in (0, threading.get_ident()):
            raise SinkRefused(f"this thread writes, and the function that began it has returned: {_WAIT}")
        return self._attempt

    @contextlib.contextmanager
    def writing(self) -> Iterator[AttemptContext | None]:
        """`get()`, for what stages files or rows: an attempt does that one after another, whichever threads ask for it."""
        attempt = self.get()
        if attempt is None:
            yield None
            return
        self._writing.add(threading.get_ident())
        try:
            with self._turn:
                yield attempt
        finally:
            self._writing.discard(threading.get_ident())


def _is_called_with_batches() -> bool:
    """Whether this is the process in which Spark calls the function of a `foreachBatch`."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)  # a notebook may have made its own
    return spec is not None and spec.name == "pyspark.sql.connect.streaming.worker.foreach_batch_worker"


_WAIT = "let the function wait for its threads (thread.join(), with ThreadPoolExecutor() as pool: ...)"


def _named(attempt: AttemptContext) -> str:
    return attempt.function.name if attempt.function is not None else "the function"


current_attempt = CurrentAttempt()
