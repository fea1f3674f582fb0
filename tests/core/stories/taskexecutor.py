"""Verbs of stories about one TaskExecutor."""

import dataclasses

from firesteel.core.registration import RegistrationTimeouts
from firesteel.core.settings import TaskExecutorSettings
from firesteel.core.taskexecutor.taskexecutor import TaskExecutorCore
from firesteel.core.taskexecutor.workeffects import (
    CheckpointDone,
    InquiryAnswered,
    JobReleaseDone,
    LeftoversFound,
    SavepointDone,
    SinkCommitDone,
    SplitsWanted,
    Stopping,
    TaskProgressed,
    TasksChanged,
)
from firesteel.model import messages as m
from firesteel.model.checkpoints import CheckpointOrder, QueryPoint
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import (
    Address,
    AllocationID,
    DataSetID,
    FencingToken,
    InstanceID,
    JobID,
    JobVertexID,
    RegionIndex,
    ResourceID,
)
from firesteel.model.inquiries import AskWorker, DumpThreads, ThreadDump, ThreadEntry
from firesteel.model.messages import Leader
from firesteel.model.reports import SplitRequest, TaskStateUpdate
from firesteel.model.resources import ResourceProfile
from firesteel.model.splits import DrawnSplits
from firesteel.model.states import ExecutionState
from firesteel.model.streams import SavepointOrder, SavepointQueries
from firesteel.model.tasks import (
    Committed,
    JobInformation,
    ResultGroup,
    ResultPartition,
    TaskDeployment,
    TaskOutcome,
    TaskProgress,
    group_results,
)
from firesteel.testing.enumeration import range_enumeration
from tests.core.graphs import JOB, commit_of, job
from tests.core.stories.player import Player, attempt, listed

SETTINGS = TaskExecutorSettings(2, ResourceProfile(1.0, 1_024), 10_000, 50_000, 10_000, 60_000)
FULL = FailureInfo(kind=FailureKind.ENVIRONMENT, message="the disk is full")


def new_core() -> TaskExecutorCore:
    return TaskExecutorCore(ResourceID("w1"), SETTINGS, Address("w1"))


class TaskExecutorPlayer(Player):
    """Worker w1 with two slots. `token=N` speaks as the master of that epoch, by default the first."""

    core: TaskExecutorCore

    def make_core(self) -> TaskExecutorCore:
        self.told = 0
        return new_core()

    def do_give_up_after(self, ms: str) -> None:
        """A worker that may be registered nowhere for so long."""
        settings = dataclasses.replace(SETTINGS, registration=RegistrationTimeouts(give_up_ms=int(ms)))
        self.core = TaskExecutorCore(ResourceID("w1"), settings, Address("w1"))

    # ── the ResourceManager ──────────────────────────────────────────────────────────────────
    def do_registered(self, instance: str = "i1", token: str = "1") -> None:
        self.deliver("rm", m.TaskExecutorRegistered(instance_id=InstanceID(instance)), int(token))

    def do_refused(self, token: str = "1") -> None:
        self.deliver("rm", m.TaskExecutorRefused(reason="it stores results elsewhere"), int(token))

    def do_slot(self, *words: str, instance: str = "i1", jm: str = "1", token: str = "1") -> None:
        """`slot 0 a 1 b`: the ResourceManager requests slot 0 as allocation a, ..., for the JobMaster of epoch `jm`."""
        body = m.RequestSlots(
            instance_id=InstanceID(instance),
            job_id=JOB,
            job_master=Leader(Address("jm"), FencingToken(int(jm), "jm")),
            slots=tuple((int(index), AllocationID(name)) for index, name in zip(words[::2], words[1::2], strict=True)),
        )
        self.deliver("rm", body, int(token))

    def do_heartbeat(self, token: str = "1") -> None:
        self.deliver("rm", m.HeartbeatRequest(), int(token))

    def do_ask(self, number: str, instance: str = "i1", token: str = "1") -> None:
        """The ResourceManager wants to see the worker's threads."""
        body = AskWorker(instance_id=InstanceID(instance), number=int(number), inquiry=DumpThreads())
        self.deliver("rm", body, int(token))

    def do_looked(self, number: str, token: str = "1") -> None:
        """The worker has looked them up."""
        asker = Leader(Address("rm"), FencingToken(int(token), "rm"))
        self.give(InquiryAnswered(asker, int(number), ThreadDump(threads=(ThreadEntry("main", ""),))))

    # ── the JobMaster ────────────────────────────────────────────────────────────────────────
    def do_held(
        self, allocations: str = "", offer: str = "99", seq: str = "", wants: str = "", token: str = "1"
    ) -> None:
        """`held a,b`: the JobMaster holds these and has seen all offers up to number `offer`."""
        self.told += 1
        body = m.AllocatedSlots(
            job_id=JOB,
            sequence=int(seq or self.told),
            offer_sequence=int(offer),
            held=tuple(AllocationID(name) for name in listed(allocations)) if allocations != "-" else (),
            wants_report=bool(wants),
        )
        self.deliver("jm", body, int(token))

    def do_submit(self, *deployments: str, reads: str = "", sends: str = "", token: str = "1") -> None:
        """`submit 0#0@a reads=x,y sends=x,y`: run attempts in slots; they read the group of the results x and y, and
        that is sent with them."""
        read, sent = ([_group(text)] if text else [] for text in (reads, sends))
        made = tuple(
            TaskDeployment(
                attempt=attempt(name),
                allocation_id=AllocationID(slot),
                vertices=(JobVertexID("v"),),
                subtask=0,
                groups=tuple((group.dataset_id, group.group_id) for group in read),
            )
            for name, _, slot in (text.partition("@") for text in deployments)
        )
        information = JobInformation(graph=job("v"), user="me")
        self.deliver("jm", m.SubmitTasks(job=information, deployments=made, groups=tuple(sent)), int(token))

    def do_cancel(self, *attempts: str, token: str = "1") -> None:
        self.deliver("jm", m.CancelTasks(job_id=JOB, attempts=tuple(map(attempt, attempts))), int(token))

    def do_acknowledge(self, *attempts: str, token: str = "1") -> None:
        self.deliver("jm", m.AcknowledgeTaskStates(job_id=JOB, attempts=tuple(map(attempt, attempts))), int(token))

    def do_splits(self, text: str, *places: str, token: str = "1") -> None:
        """`splits 0#0:1 4 5`: the JobMaster's answer to what wants draw 1."""
        name, _, number = text.partition(":")
        splits = tuple(range_enumeration(int(place) + 1).splits[-1] for place in places)
        drawn = DrawnSplits(number=int(number), splits=splits, is_end=not splits)
        self.deliver("jm", m.NextInputSplits(job_id=JOB, attempt=attempt(name), drawn=drawn), int(token))

    def do_discard(self, *locations: str, token: str = "1") -> None:
        self.deliver("jm", m.DiscardResults(job_id=JOB, locations=locations), int(token))

    def do_commit(self, *names: str, token: str = "1") -> None:
        self.deliver("jm", m.CommitSinks(job_id=JOB, commits=tuple(map(commit_of, names))), int(token))

    def do_stop_tasks(self, *attempts: str, drain: str = "", token: str = "1") -> None:
        body = m.StopTasks(job_id=JOB, attempts=tuple(map(attempt, attempts)), drain=bool(drain))
        self.deliver("jm", body, int(token))

    def do_savepoint(self, name: str, token: str = "1") -> None:
        order = SavepointOrder(
            savepoint_id=name,
            location=f"/savepoints/{name}",
            queries=(SavepointQueries(region=RegionIndex(0), attempt=0, uids=("v",)),),
            job_name="the job",
            vertices=(),
        )
        self.deliver("jm", m.TakeSavepoint(job_id=JOB, order=order), int(token))

    def do_saved(self, name: str, problem: str = "") -> None:
        """The savepoint is written, or could not be."""
        self.give(SavepointDone(JOB, name, FULL if problem else None))

    def do_checkpoint(self, number: str, token: str = "1") -> None:
        order = CheckpointOrder(
            checkpoint_id=int(number),
            queries=(SavepointQueries(region=RegionIndex(0), attempt=0, uids=("v",)),),
        )
        self.deliver("jm", m.TriggerCheckpoint(job_id=JOB, order=order), int(token))

    def do_surveyed(self, number: str, problem: str = "") -> None:
        """The points are looked up, or could not be."""
        points = () if problem else (QueryPoint(uid="v", batch=7),)
        self.give(CheckpointDone(JOB, int(number), points, FULL if problem else None))

    def do_release(self, *locations: str, token: str = "1", retained: str = "") -> None:
        """`retained=`: where its last checkpoint is to stay; `?`: nobody knows."""
        stays = None if retained == "?" else retained
        self.deliver("jm", m.ReleaseJobResources(job_id=JOB, locations=locations, retained=stays), int(token))

    def do_wrong(self) -> None:
        self.deliver("jm", m.JobClosed(job_id=JOB), 1)

    # ── the worker's own process ─────────────────────────────────────────────────────────────
    def do_spark(self, *updates: str, job: str = JOB) -> None:
        """`spark 0#0:FINISHED`: attempts run, or have ended."""
        self.give(TasksChanged(tuple(_update(text, JobID(job)) for text in updates)))

    def do_progress(self, text: str) -> None:
        self.give(TaskProgressed(TaskProgress(attempt=attempt(text), stages_done=1)))

    def do_wants(self, text: str, job: str = JOB) -> None:
        """`wants 0#0:1`: an attempt wants its draw 1."""
        name, _, number = text.partition(":")
        self.give(SplitsWanted(SplitRequest(attempt(name, JobID(job)), int(number), "here")))

    def do_committed(self, name: str, problem: str = "") -> None:
        self.give(SinkCommitDone(JOB, commit_of(name).commit_id, FULL if problem else None, Committed()))

    def do_gone(self) -> None:
        """What the job had here is deleted."""
        self.give(JobReleaseDone(JOB))

    def do_leftovers(self, *jobs: str) -> None:
        """Dead workers have left something: of the stories' job, unless others are named."""
        self.give(LeftoversFound(tuple(JobID(name) for name in jobs) or (JOB,)))

    def do_stop(self) -> None:
        self.give(Stopping("the machine goes down"))


def _group(text: str) -> ResultGroup:
    parts = [ResultPartition(dataset_id=DataSetID("d"), subtask=0, location=name) for name in listed(text)]
    return group_results(DataSetID("d"), parts)


def _update(text: str, job_id: JobID) -> TaskStateUpdate:
    name, _, state = text.partition(":")
    made = TaskOutcome(sinks=(commit_of("v"),)) if state == "FINISHED" else None
    return TaskStateUpdate(attempt=attempt(name, job_id), state=ExecutionState[state], outcome=made)
