"""A cluster in a world: masters with their disk, workers with their Spark, and whom clients ask."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

from firesteel.core.dispatcher import requests as r
from firesteel.core.dispatcher.clients import LATE_MS
from firesteel.core.effects import Effect
from firesteel.core.requests import Asked, Request
from firesteel.core.taskexecutor.taskexecutor import TaskExecutorCore
from firesteel.core.taskexecutor.workeffects import GiveUp, Stopping
from firesteel.model.ids import Address, JobID, ResourceID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.labels import Labels
from firesteel.testing.simulation.cores.masters import Masters
from firesteel.testing.simulation.cores.settings import ClusterSettings
from firesteel.testing.simulation.cores.spark import FakeSpark, Storage
from firesteel.testing.simulation.cores.world import SimulatedEndpoint, World


class Cluster:
    """Workers that come and go, and masters. Requests go through `ask`."""

    def __init__(self, world: World, settings: ClusterSettings) -> None:
        self.world, self.settings, self.storage = world, settings, Storage()
        self.graphs: dict[JobID, JobGraph] = {}
        """Graph of every job that was ever submitted, for the oracles."""
        self.sparks: dict[Address, FakeSpark] = {}
        self.reached_ms: dict[JobID, int] = {}
        """When the client of a job has last shown the leading Dispatcher that it is there."""
        self.cancelled: dict[JobID, None] = {}
        """Jobs that a client has asked a Dispatcher to cancel."""
        self.masters = Masters(world, settings)
        self._workers = self._requests = self._absent = 0
        self._answers: dict[int, Callable[[object], None]] = {}
        world.on_reply = self._on_reply
        self.masters.change()
        for labels in settings.labels or ((),) * settings.workers:
            self.add_worker(labels)

    # ── clients ──────────────────────────────────────────────────────────────────────────────
    def ask(self, request: Request[Any], answer: Callable[[object], None]) -> bool:
        """Ask the leading Dispatcher; False when there is none. An answer may never come."""
        endpoint = self.masters.dispatcher
        if endpoint is None:
            return False
        self._note_client(endpoint, request)
        self._requests += 1
        self._answers[self._requests] = answer
        self.world.give(endpoint, Asked(self._requests, request))
        return True

    def ask_master(self, job_id: JobID, request: Request[Any], answer: Callable[[object], None]) -> bool:
        """Ask who leads a job; False when nobody does. An answer may never come."""
        endpoint = self.masters.job_master(job_id)
        if endpoint is None:
            return False
        self._requests += 1
        self._answers[self._requests] = answer
        self.world.give(endpoint, Asked(self._requests, request))
        return True

    def _note_client(self, endpoint: SimulatedEndpoint, request: Request[Any]) -> None:
        """A sign of life counts also when it lies unread, unless that is for so short a time that nobody can know."""
        now_ms, until_ms = self.world.now_ms, self.world.is_stalled(endpoint.node)
        is_soon_read = 0 < until_ms <= now_ms + 2 * LATE_MS
        match request:
            case r.SubmitJob(graph=graph) if self.graphs[graph.job_id] != graph:
                pass  # another job of this id
            case r.SubmitJob(graph=JobGraph(job_id=job_id)) | r.ReportClientHeartbeat(job_id=job_id):
                self.reached_ms[job_id] = self.reached_ms.get(job_id, now_ms) if is_soon_read else now_ms
            case r.CancelJobRequest(job_id=job_id):
                self.cancelled[job_id] = None
            case _:
                pass

    def _on_reply(self, endpoint: SimulatedEndpoint, request_id: int, value: object) -> None:
        assert request_id in self._answers, "a request is answered once"
        self._answers.pop(request_id)(value)

    # ── workers ──────────────────────────────────────────────────────────────────────────────
    def add_worker(self, labels: Labels) -> None:
        """A new worker process."""
        self._workers += 1
        name = f"worker-{self._workers}"
        settings = self.settings.task_executor
        settings = dataclasses.replace(settings, profile=settings.profile.labelled(labels))
        core = TaskExecutorCore(ResourceID(name), settings, Address(name))
        self.sparks[core.address] = FakeSpark(self.world, self.storage, name)
        self.world.add(core, name, self._interpret)

    def _interpret(self, endpoint: SimulatedEndpoint, effect: Effect) -> None:
        if isinstance(effect, GiveUp):
            self.world.after(0, partial(self._give_up, endpoint))
        else:
            self.sparks[endpoint.core.address].interpret(endpoint, effect)

    def _give_up(self, endpoint: SimulatedEndpoint) -> None:
        if endpoint.alive:
            self.stop_worker(endpoint)

    def kill_worker(self, endpoint: SimulatedEndpoint) -> None:
        """A power cut for a worker; another takes its place, at once or later."""
        self._end_worker(endpoint, "killed")

    def stop_worker(self, endpoint: SimulatedEndpoint) -> None:
        """A worker says goodbye and goes."""
        self.world.give(endpoint, Stopping("it is stopped"))
        self._end_worker(endpoint, "stopped")

    def _end_worker(self, endpoint: SimulatedEndpoint, reason: str) -> None:
        self.sparks.pop(endpoint.core.address).die()
        self.world.remove(endpoint.core.address, reason)
        back_ms = self.world.stream("workers").randint(0, self.world.faults.worker_back_ms_max)
        self._absent += 1
        assert isinstance(endpoint.core, TaskExecutorCore), "a worker"
        self.world.after(back_ms, partial(self._return, labels_of_worker(endpoint.core)))

    def _return(self, labels: Labels) -> None:
        self._absent -= 1
        self.add_worker(labels)

    @property
    def is_complete(self) -> bool:
        """Whether all workers are up."""
        return not self._absent

    def workers(self) -> list[SimulatedEndpoint]:
        return [endpoint for endpoint in self.world.endpoints.values() if isinstance(endpoint.core, TaskExecutorCore)]


def labels_of_worker(core: TaskExecutorCore) -> Labels:
    """What its slots say that they are called."""
    return core.table.slots[0].profile.labels
