"""A sample of every message, all about `job`, worker w1 and its slot a."""

import typing

from firesteel.model import messages as m
from firesteel.model.checkpoints import CheckpointOrder, QueryPoint
from firesteel.model.ids import (
    Address,
    AllocationID,
    FencingToken,
    InstanceID,
    RegionAttemptID,
    RegionIndex,
    ResourceID,
)
from firesteel.model.inquiries import AskWorker, DumpThreads, InquiryRefused, WorkerAnswered
from firesteel.model.messages import Leader
from firesteel.model.reports import (
    ExecutionReport,
    SlotAllocation,
    SlotOffer,
    SlotReport,
    SplitRequest,
    TaskStateUpdate,
)
from firesteel.model.resources import ResourceProfile
from firesteel.model.splits import DrawnSplits
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.streams import SavepointOrder, SavepointQueries
from firesteel.model.tasks import JobInformation, TaskDeployment, TaskOutcome, TaskProgress
from firesteel.model.views import JobResult, JobView
from tests.core.graphs import JOB, commit_of, job

W1, INSTANCE, A = ResourceID("w1"), InstanceID("i1"), AllocationID("a")
SLOT = ResourceProfile(1.0, 1_024)
ATTEMPT = RegionAttemptID(JOB, RegionIndex(0), 0)
REPORT = SlotReport(1_000, ((SLOT, 2),), (SlotAllocation(1, A, JOB),))
DEPLOYMENT = TaskDeployment(attempt=ATTEMPT, allocation_id=A, vertices=(), subtask=0)
FINISHED = TaskStateUpdate(attempt=ATTEMPT, state=ExecutionState.FINISHED, outcome=TaskOutcome())
RESULT = JobResult(job_id=JOB, name="it", status=JobStatus.CANCELED, start_time_ms=0, end_time_ms=1)
JOB_MASTER = Leader(Address("jm"), FencingToken(9, "jm"))

SAMPLES: tuple[m.AnyMessage, ...] = (
    m.RegisterTaskExecutor(resource_id=ResourceID("w2"), report=REPORT),
    m.TaskExecutorHeartbeat(resource_id=W1, instance_id=INSTANCE, report=REPORT),
    m.SlotRequestAnswer(resource_id=W1, instance_id=INSTANCE, allocations=(A,), report=REPORT),
    m.NotifySlotAvailable(resource_id=W1, instance_id=INSTANCE, report=REPORT),
    m.DisconnectTaskExecutor(resource_id=W1, reason="goodbye"),
    m.TaskExecutorRegistered(instance_id=InstanceID("i2")),
    m.TaskExecutorRefused(reason="it stores results elsewhere"),
    m.RequestSlots(instance_id=INSTANCE, job_id=JOB, job_master=JOB_MASTER, slots=((1, AllocationID("b")),)),
    m.HeartbeatRequest(),
    AskWorker(instance_id=INSTANCE, number=1, inquiry=DumpThreads()),
    WorkerAnswered(number=1, answer=InquiryRefused(reason="gone", is_missing=True)),
    m.RegisterJobMaster(job_id=JOB, sequence=1_000, requirements=((SLOT, 5),)),
    m.JobMasterRegistered(job_id=JOB),
    m.DeclareRequiredResources(job_id=JOB, sequence=1_000, requirements=()),
    m.JobMasterHeartbeat(job_id=JOB),
    m.DisconnectJobMaster(job_id=JOB),
    m.NotEnoughResources(job_id=JOB, profile=ResourceProfile(), reason="none"),
    m.TaskManagerReport(
        resource_id=W1,
        job_id=JOB,
        sequence=1_000,
        slots=(SlotOffer(AllocationID("b"), 1, SLOT),),
        executions=(ExecutionReport(ATTEMPT, ExecutionState.RUNNING, A),),
    ),
    m.UpdateTaskExecutionStates(resource_id=W1, job_id=JOB, sequence=1_000, updates=(FINISHED,)),
    m.ReportProgress(resource_id=W1, job_id=JOB, progress=(TaskProgress(attempt=ATTEMPT),)),
    m.RequestNextInputSplits(resource_id=W1, job_id=JOB, wants=(SplitRequest(ATTEMPT, 0, "here"),)),
    m.SinkCommitAnswer(resource_id=W1, job_id=JOB, commit_id="v/0"),
    m.SavepointAnswer(resource_id=W1, job_id=JOB, savepoint_id="sp"),
    m.AcknowledgeCheckpoint(resource_id=W1, job_id=JOB, checkpoint_id=1, points=(QueryPoint(uid="v", batch=7),)),
    m.JobReleased(resource_id=W1, job_id=JOB),
    m.AllocatedSlots(job_id=JOB, sequence=1_000, offer_sequence=1_000, held=()),
    m.SubmitTasks(job=JobInformation(graph=job("v"), user="me"), deployments=(DEPLOYMENT,)),
    m.CancelTasks(job_id=JOB, attempts=(ATTEMPT,)),
    m.AcknowledgeTaskStates(job_id=JOB, attempts=(ATTEMPT,)),
    m.NextInputSplits(job_id=JOB, attempt=ATTEMPT, drawn=DrawnSplits(number=0)),
    m.DiscardResults(job_id=JOB, locations=("v/0#0",)),
    m.CommitSinks(job_id=JOB, commits=(commit_of("v"),)),
    m.StopTasks(job_id=JOB, attempts=(ATTEMPT,), drain=True),
    m.TakeSavepoint(
        job_id=JOB,
        order=SavepointOrder(
            savepoint_id="sp",
            location="/savepoints/sp",
            queries=(SavepointQueries(region=RegionIndex(0), attempt=0, uids=("v",)),),
            job_name="it",
            vertices=(("v", "v"),),
        ),
    ),
    m.TriggerCheckpoint(
        job_id=JOB,
        order=CheckpointOrder(
            checkpoint_id=1, queries=(SavepointQueries(region=RegionIndex(0), attempt=0, uids=("v",)),)
        ),
    ),
    m.ReleaseJobResources(job_id=JOB, locations=("v/0#0",)),
    m.FollowLeader(component="job"),
    m.UnfollowLeader(component="job"),
    m.LeaderIs(component="job", leader=JOB_MASTER),
    m.CancelJob(job_id=JOB),
    m.JobStatusChanged(job_id=JOB, status=JobStatus.FAILING),
    m.JobTerminated(result=RESULT, view=JobView(job_id=JOB, name="it", status=JobStatus.CANCELED)),
    m.JobClosed(job_id=JOB),
    m.JobsUnheard(job_ids=(JOB,)),
    m.CancelTooLate(job_id=JOB),
)

KINDS = typing.get_args(m.AnyMessage)
