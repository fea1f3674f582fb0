"""A Dispatcher in a master's process, what it has done by that, and the sessions of its jobs."""

from collections.abc import Callable
from functools import partial
from typing import assert_never

from firesteel.core.dispatcher import requests as r
from firesteel.core.dispatcher import sessions
from firesteel.core.dispatcher.dispatcher import DispatcherCore
from firesteel.core.dispatcher.sessions import JobSessions
from firesteel.core.effects import DISPATCHER, RESOURCE_MANAGER, Effect, Persist
from firesteel.core.journal.groupcommit import GroupCommit
from firesteel.core.journal.journal import JobState
from firesteel.core.journal.storedjobs import GraphForgotten, GraphStored, JobRemoved, ResultForgotten, ResultStored
from firesteel.core.leadership.events import SessionFailure
from firesteel.core.machine import Core
from firesteel.core.settings import JobReleaseSettings
from firesteel.model.ids import Address, FencingToken, JobID
from firesteel.model.messages import Leader
from firesteel.model.views import JobView
from firesteel.runtime.leadership import failure_of
from firesteel.runtime.services import StaleLeader
from firesteel.testing.simulation.cores.leading import Process, Runner
from firesteel.testing.simulation.cores.settings import RETRYABLE_MAX, ClusterSettings
from firesteel.testing.simulation.cores.store import Answer
from firesteel.testing.simulation.cores.world import SimulatedEndpoint


class DispatcherRunner(Runner):
    """What `runtime.dispatcher` is. `on_loaded` is told when it has read all that is stored; for `is_heard`, see
    JobSession.
    """

    def __init__(
        self,
        process: Process,
        settings: ClusterSettings,
        on_loaded: Callable[[FencingToken], None],
        is_heard: Callable[[], bool],
        archive: dict[JobID, JobView],
    ) -> None:
        super().__init__(process, DISPATCHER)
        self._settings, self._on_loaded, self._is_heard = settings, on_loaded, is_heard
        self._archive = archive
        self.sessions: JobSessions[JobSession] = JobSessions()

    def _serve(self, token: FencingToken) -> None:
        me = Leader(Address(f"{self.process.node}/dispatcher"), token)
        self.sessions = JobSessions()
        self._is_up(DispatcherCore(me, results_max=1_000, retryable_max=RETRYABLE_MAX))

    def _stop(self, reason: str) -> None:
        super()._stop(reason)
        for session in self.sessions.all():
            session.retire(reason)

    def leads(self, job_id: JobID) -> Core | None:
        """What leads a job at the moment."""
        session = self.sessions.of(job_id)
        return session.endpoint.core if session is not None and session.endpoint is not None else None

    # ── effects ──────────────────────────────────────────────────────────────────────────────
    def _interpret(self, endpoint: SimulatedEndpoint, effect: Effect) -> None:
        assert isinstance(effect, r.DispatcherEffect), f"not an effect of a Dispatcher: {effect}"
        store, token = self.process.store, endpoint.core.token
        assert token is not None, "a Dispatcher has a token"
        give = partial(self.world.give, endpoint)
        match effect:
            case r.LoadJobs():
                self._until_done(endpoint, partial(store.load, token), partial(self._loaded, endpoint))
            case r.StoreJobGraph():
                self._store_graph(endpoint, effect)
            case r.StoreJobResult(result=result):
                write = partial(store.write, ResultStored(result), token)
                self._until_done(endpoint, write, lambda value: give(r.JobResultStored(result.job_id)))
            case r.CleanUpJob(job_id=job_id, keeps_graph=keeps_graph):
                self._put_away(endpoint, job_id)
                write = partial(store.write, JobRemoved(job_id, keeps_graph), token)
                self._until_done(endpoint, write, lambda value: give(r.JobCleanedUp(job_id)))
            case r.ForgetGraph(job_id=job_id):
                write = partial(store.write, GraphForgotten(job_id), token)
                self._until_done(endpoint, write, lambda value: give(r.JobForgotten(job_id)))
            case r.ForgetResult(job_id=job_id):
                write = partial(store.write, ResultForgotten(job_id), token)
                self._until_done(endpoint, write, lambda value: give(r.JobForgotten(job_id)))
            case r.StartJobMaster() | r.ReleaseJob():
                session = JobSession(self.process, endpoint, effect, self._settings, self._is_heard)
                if self.sessions.begin(effect.job_id, session):
                    session.begin()
            case r.StopJobMaster(job_id=job_id):
                self._stop_session(job_id)
            case _:
                assert_never(effect)

    def _until_done(
        self, endpoint: SimulatedEndpoint, call: Callable[[Answer], None], done: Answer, failures: int = 0
    ) -> None:
        """Try until the store does it, or this leadership ends."""

        def answer(value: object) -> None:
            if isinstance(value, OSError):
                again = partial(self._until_done, endpoint, call, done, failures + 1)
                self.world.after(round(r.STORE_RETRIES.after(failures + 1)), again)
            elif isinstance(value, StaleLeader):
                self._is_stale(endpoint, value)
            else:
                done(value)

        if endpoint.alive:
            call(answer)

    def _is_stale(self, endpoint: SimulatedEndpoint, error: StaleLeader) -> None:
        """Another process has claimed its jobs."""
        if endpoint is self.endpoint:
            self.fail(error)

    def _loaded(self, endpoint: SimulatedEndpoint, value: object) -> None:
        assert isinstance(value, tuple), "all graphs, and all results"
        assert endpoint.core.token is not None, "a Dispatcher has a token"
        self._on_loaded(endpoint.core.token)
        self.world.give(endpoint, r.JobsLoaded(*value))

    def _put_away(self, endpoint: SimulatedEndpoint, job_id: JobID) -> None:
        """What there was to see of a job, before its journal goes."""
        assert isinstance(endpoint.core, DispatcherCore), "who cleans up is a Dispatcher"
        view = endpoint.core.jobs[job_id].view
        if view is not None:
            self._archive[job_id] = view

    def _store_graph(self, endpoint: SimulatedEndpoint, effect: r.StoreJobGraph) -> None:
        def answer(value: object) -> None:
            if isinstance(value, StaleLeader):
                self._is_stale(endpoint, value)
            else:
                error = str(value) if isinstance(value, OSError) else ""
                self.world.give(endpoint, r.JobGraphStored(effect.graph.job_id, error))

        self.process.store.write(GraphStored(effect.graph), endpoint.core.token, answer)

    def _stop_session(self, job_id: JobID) -> None:
        session = self.sessions.end(job_id)
        if session is None:
            return
        session.retire("stopped by its Dispatcher")
        following = self.sessions.gone(job_id, session)
        if following is not None:
            following.begin()


class JobSession(Runner):
    """What leads a job under one Dispatcher, which is told when it has broken for good. `is_heard` is asked after each
    write to the journal whether the JobMaster lives to hear that it is through.
    """

    def __init__(
        self,
        process: Process,
        dispatcher: SimulatedEndpoint,
        start: r.StartJobMaster | r.ReleaseJob,
        settings: ClusterSettings,
        is_heard: Callable[[], bool],
    ) -> None:
        super().__init__(process, start.job_id, outlives_bugs=False)
        self.job_id, self._start, self._dispatcher = start.job_id, start, dispatcher
        self._settings, self._is_heard = settings.job_master, is_heard
        self._commit = GroupCommit()

    def _may_lead(self) -> bool:
        """A process that was deposed may not know: then its Dispatcher leads on, and so do its JobMasters."""
        return True

    def _serve(self, token: FencingToken) -> None:
        def answer(value: object) -> None:
            if not self.serves(token):
                return
            if isinstance(value, JobState) or (isinstance(value, StaleLeader) and not self._start.needs_journal):
                self._lead(token, value if isinstance(value, JobState) else None)
            else:
                assert isinstance(value, OSError | StaleLeader), "it is one or the other"
                self.fail(value)

        self.process.store.claim_journal(self.job_id, token, answer)

    def _lead(self, token: FencingToken, state: JobState | None) -> None:
        boss, settings = self._dispatcher.core, self._settings
        assert isinstance(boss, DispatcherCore), "who starts JobMasters is a Dispatcher"
        assert boss.token is not None, "a Dispatcher has a token"
        self._commit = GroupCommit()
        core = sessions.job_core(
            self._start,
            boss.jobs.get(self.job_id),
            state,
            settings=lambda graph: settings,
            release=JobReleaseSettings(
                settings.heartbeat_interval_ms, settings.heartbeat_timeout_ms, settings.reconciliation_timeout_ms
            ),
            me=Leader(Address(f"{self.process.node}/jobmaster/{self.job_id[:6]}"), token),
            dispatcher=Leader(boss.address, boss.token),
        )
        self._is_up(core, RESOURCE_MANAGER)

    def _lost(self, error: Exception) -> None:
        failure = failure_of(error)
        assert failure is SessionFailure.BUG or not self.process.leads, (
            f"job {self.job_id} is given up for {self._reason}"
        )
        self.world.give(self._dispatcher, sessions.broken(self.job_id, failure, error))

    # ── the journal ──────────────────────────────────────────────────────────────────────────
    def _interpret(self, endpoint: SimulatedEndpoint, effect: Effect) -> None:
        assert isinstance(effect, Persist), f"not an effect of a JobMaster: {effect}"
        if self._commit.add(effect):
            self.world.after(0, partial(self._append, endpoint))

    def _append(self, endpoint: SimulatedEndpoint) -> None:
        if self.endpoint is not endpoint or not endpoint.alive:
            return
        assert endpoint.core.token is not None, "a JobMaster has a token"
        records = self._commit.next_write()
        if records:
            self.process.store.append(self.job_id, endpoint.core.token, records, partial(self._written, endpoint))

    def _written(self, endpoint: SimulatedEndpoint, value: object) -> None:
        if self.endpoint is not endpoint:
            return
        if isinstance(value, OSError | StaleLeader):
            self.fail(value)
        elif self._is_heard():
            told = self._commit.written()
            self._append(endpoint)
            self.world.give(endpoint, told)
