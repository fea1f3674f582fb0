"""What a client may ask of a cluster: one interface for the mini cluster and the network."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from firesteel.core.dispatcher.requests import DuplicateJob, StorageUnavailable, UnknownJob
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.views import ClusterOverview, JobResult, JobView

__all__ = ["ClusterClient", "ClusterLost", "DuplicateJob", "NoLeader", "StorageUnavailable", "UnknownJob"]


class NoLeader(ConnectionError):
    """Nobody leads the component that was asked; it may in a moment."""


class ClusterLost(ConnectionError):
    """Our bug, or a lost store: a component has failed too often and will not be started again."""


class ClusterClient(Protocol):
    """Coroutines for one cluster. Raises UnknownJob where a job id is not known."""

    async def submit_job(self, graph: JobGraph, artifacts: Mapping[str, Path]) -> JobID:
        """Hand in a job with its artifacts (files by SHA-256).

        Returns when the job is safe with the Dispatcher, before it runs. Raises
        InvalidJobGraph or DuplicateJob.
        """

    async def request_job(self, job_id: JobID) -> JobView: ...

    async def list_jobs(self) -> list[JobView]:
        """Every known job, without its vertices, newest first."""

    async def request_job_result(self, job_id: JobID) -> JobResult:
        """Waits until the job has ended."""

    async def cancel_job(self, job_id: JobID) -> None:
        """Ask for the job to end; returns when that is safe with its master, before it has ended.

        Of a job that ended already: does nothing.
        """

    async def request_cluster_overview(self) -> ClusterOverview: ...
