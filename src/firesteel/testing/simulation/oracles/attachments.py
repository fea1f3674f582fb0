"""Jobs that end with their client: one is cancelled for it when it is gone for so long as it says, and only then."""

from firesteel.core.dispatcher.dispatcher import DispatcherCore
from firesteel.core.dispatcher.jobentry import JobEntry, JobStage
from firesteel.core.dispatcher.requests import JobsLoaded
from firesteel.core.effects import Event
from firesteel.model.ids import FencingToken, JobID
from firesteel.testing.simulation.cores.cluster import Cluster
from firesteel.testing.simulation.cores.world import SimulatedEndpoint

NOTICED_TIMEOUTS, NOTICED_MS = 5, 20_000
"""A client that is gone is noticed within so many of its timeouts, and so many milliseconds more: a look that comes
late, as that of a busy process, says nothing of clients, and the next one is a timeout later."""

ROUNDED_MS = 1


class AttachedJobs:
    """What a leading Dispatcher makes of the silence of clients. What a deposed one thinks of it is without effect."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.given_up: dict[JobID, None] = {}
        """Jobs whose client some Dispatcher has taken for gone."""
        self._judged: dict[tuple[JobID, FencingToken | None], None] = {}
        self._loaded_ms = 0

    def after_event(self, endpoint: SimulatedEndpoint, core: DispatcherCore, event: Event) -> None:
        """`core` has just answered `event`."""
        leads = endpoint is self.cluster.masters.dispatcher
        if leads and isinstance(event, JobsLoaded):
            self._loaded_ms = self.cluster.world.now_ms
        for job in core.jobs.values():
            is_judged = (job.job_id, core.token) in self._judged  # it may commit already, and end by itself
            if job.cancel_reason and not is_judged:
                assert not leads or self._is_silent(endpoint, job), f"the client of {job.job_id} is there, and given up"
                self._judged[job.job_id, core.token] = self.given_up[job.job_id] = None
            elif leads and job.stage is JobStage.RUNNING and not job.cancel and not is_judged:
                assert not self._should_be_missed(endpoint, job), (
                    f"the client of {job.job_id} is gone, and nobody notices"
                )

    def _is_silent(self, endpoint: SimulatedEndpoint, job: JobEntry) -> bool:
        """Whether the leader could not hear of the client for its time, by the leader's clock."""
        world = self.cluster.world
        clock = world.clock_of(endpoint.node)
        since_ms = max(self.cluster.reached_ms[job.job_id], self._loaded_ms)
        return clock.now_ms(world.now_ms) - clock.now_ms(since_ms) >= _timeout_ms(job) - ROUNDED_MS

    def _should_be_missed(self, endpoint: SimulatedEndpoint, job: JobEntry) -> bool:
        world = self.cluster.world
        stood_still_ms = world.stalls.get(endpoint.node, 0)
        since_ms = max(self.cluster.reached_ms[job.job_id], self._loaded_ms, stood_still_ms)
        limit_ms = NOTICED_TIMEOUTS * _timeout_ms(job) + NOTICED_MS
        return bool(_timeout_ms(job)) and world.now_ms - since_ms > limit_ms


def _timeout_ms(job: JobEntry) -> int:
    return job.graph.client_heartbeat_timeout_ms if job.graph is not None else 0
