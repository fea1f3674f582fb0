"""Many jobs of one subtask at once, on fewer slots than there are jobs."""

from benchmarks.scale import jobs
from benchmarks.scale.cluster import Cluster
from firesteel.core.dispatcher.requests import AwaitJobResult, SubmitJob
from firesteel.core.requests import Asked
from firesteel.core.resourcemanager.resourcemanager import ResourceManagerCore
from firesteel.model.reports import TaskStateUpdate
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.tasks import TaskOutcome
from firesteel.model.views import JobResult

WORKERS, SLOTS = 10, 10


def run_small_jobs(count: int) -> dict[str, float]:
    """Submit `count` jobs, then let them run to their ends, as many at a time as have a slot: milliseconds a job."""
    cluster = Cluster(WORKERS, SLOTS)
    name = f"{count:,} small jobs on {WORKERS * SLOTS} slots"
    graphs = [jobs.small(number) for number in range(count)]
    before = cluster.master_s()
    for number, graph in enumerate(graphs):
        cluster.give(cluster.dispatcher.address, Asked(2 * number, SubmitJob(graph)))
        cluster.give(cluster.dispatcher.address, Asked(2 * number + 1, AwaitJobResult(graph.job_id)))
    cluster.carry()
    submitted = cluster.master_s()
    manager = cluster.nodes[cluster.resource_manager.address].core
    assert isinstance(manager, ResourceManagerCore), "it leads"
    waiting = cluster.timed("looking", manager.queue)
    assert len(waiting) == count - WORKERS * SLOTS, "the others stand in line"
    looked = cluster.spent["looking"]
    while cluster.running:
        cluster.change(
            TaskStateUpdate(attempt=attempt, state=ExecutionState.FINISHED, outcome=TaskOutcome())
            for attempt in list(cluster.running)
        )
    ends = [reply for reply in cluster.replies.values() if isinstance(reply, JobResult)]
    assert [end.status for end in ends] == [JobStatus.FINISHED] * count, "all finish"
    return {
        f"{name}: submitted, each": (submitted - before) * 1_000 / count,
        f"{name}: the line of those that wait": looked * 1_000,
        f"{name}: run and cleaned up, each": (cluster.master_s() - submitted) * 1_000 / count,
    }
