"""Archived jobs as tests make them."""

from pathlib import Path
from typing import Any

from firesteel.adapters.history.index import HistoryIndex, Place
from firesteel.adapters.history.record import ArchivedJob, Origin, archived_job, encode_job
from firesteel.adapters.storage.files import DirectoryFiles
from firesteel.model.ids import JobID, JobVertexID, ResourceID, derived_id
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.views import JobResult, JobView, SubtaskView, VertexView

ORIGIN = Origin(cluster="first", firesteel="0.1.0", archived_ms=9)


def job_id(name: object) -> JobID:
    return JobID(derived_id("archived", name))


def view(name: object = "it", **fields: Any) -> JobView:
    plain = {"status": JobStatus.FINISHED, "start_time_ms": 1, "end_time_ms": 5, "timestamps_ms": {"FINISHED": 5}}
    return JobView(job_id=job_id(name), name=str(name), **{**plain, **fields})


def result(of: JobView, **fields: Any) -> JobResult:
    return JobResult(
        job_id=of.job_id,
        name=of.name,
        status=of.status,
        start_time_ms=of.start_time_ms,
        end_time_ms=of.end_time_ms,
        **fields,
    )


def vertex(*workers: ResourceID, parallelism: int = 0, is_script: bool = False) -> VertexView:
    subtasks = tuple(
        SubtaskView(subtask=number, state=ExecutionState.FINISHED, attempt=0, task_manager=worker)
        for number, worker in enumerate(workers)
    )
    return VertexView(
        id=JobVertexID(derived_id("words")),
        name="words",
        functions=("words",),
        parallelism=parallelism or len(workers),
        status=ExecutionState.FINISHED,
        tasks={"FINISHED": len(workers)},
        attempts=1,
        is_script=is_script,
        subtasks=subtasks,
    )


def archived(name: object = "it", **fields: Any) -> ArchivedJob:
    it = view(name, **fields)
    return archived_job(it, result(it), ORIGIN)


def put(directory: Path, job: ArchivedJob) -> Path:
    """Write a job's file as masters do."""
    DirectoryFiles(directory).write(f"{job.view.job_id}.job", encode_job(job))
    return directory / f"{job.view.job_id}.job"


def index(*directories: Path, forgets_deleted: bool = False, retained: int = -1) -> HistoryIndex:
    places = [Place(str(each), DirectoryFiles(each)) for each in directories]
    return HistoryIndex(places, forgets_deleted=forgets_deleted, retained=retained)
