"""State of streaming queries, read by a worker: of one that runs, or of one in a savepoint."""

from collections.abc import Iterable

from firesteel.model.ids import ResourceID
from firesteel.model.inquiries import InquiryRefused, ReadState, StateRead
from firesteel.model.jobgraph import JobType
from firesteel.model.labels import Labels
from firesteel.model.options import CHECKPOINTS_DIR
from firesteel.model.streams import QueryState, StateOrder, StateQuestion
from firesteel.model.views import JobView, TaskManagerView, VertexView
from firesteel.rest.call import Call
from firesteel.rest.errors import RestError, bad_request, not_found
from firesteel.rest.handlers.completion import require_owner
from firesteel.runtime.client import BUILD_LIMIT_S


async def of_job(call: Call) -> QueryState:
    """As of the last committed batch, to who submitted the job or operates the cluster."""
    await require_owner(call, "keep")
    job = await call.job()
    if job.job_type is not JobType.STREAMING:
        raise bad_request(f"Job {job.job_id} ({job.name}) is a batch job: it keeps no state.")
    if job.status.is_globally_terminal:
        raise bad_request(f"Job {job.job_id} ({job.name}) has ended: its state is in its savepoints, if it has any.")
    vertex, uid = _query(job, call.query["vertex"])
    (subtask,) = await call.gateway.request_subtasks(job.job_id, vertex)
    if subtask.task_manager is None:
        raise bad_request(f"Query {uid} of job {job.job_id} ({job.name}) waits for a worker: ask again when it runs.")
    order = StateOrder(
        uid=uid,
        job_id=job.job_id,
        checkpoints_dir=job.configuration.get(CHECKPOINTS_DIR.key, ""),
        question=_question(call),
    )
    return await _read(call, subtask.task_manager, order)


async def of_savepoint(call: Call) -> QueryState:
    """Of the query with the uid that `vertex` says, or of the only one. Read by a worker of each kind in turn, until one can:
    where the savepoint is, or what its state takes to be read, may be known to some only."""
    if not call.query["path"]:
        raise bad_request("Say which savepoint: path=PATH.")
    workers = await call.gateway.list_task_managers()
    if not workers:
        raise bad_request("No worker is registered, and savepoints are read by workers: start one.")
    order = StateOrder(uid=call.query["vertex"], savepoint=call.query["path"], question=_question(call))
    refusals: dict[str, None] = {}
    for worker in one_of_each_kind(workers):
        try:
            return await _read(call, worker.resource_id, order)
        except RestError as refused:
            refusals[refused.message] = None
    raise bad_request("; ".join(refusals))


def one_of_each_kind(workers: Iterable[TaskManagerView]) -> list[TaskManagerView]:
    """For each set of labels the worker with the most free slots; who has most comes first."""
    kinds: dict[Labels, TaskManagerView] = {}
    for worker in sorted(workers, key=lambda worker: -worker.free_slots):
        kinds.setdefault(worker.profile.labels, worker)
    return list(kinds.values())


async def _read(call: Call, worker: ResourceID, order: StateOrder) -> QueryState:
    answer = await call.gateway.ask_task_manager(worker, ReadState(order=order), BUILD_LIMIT_S)
    match answer:
        case StateRead(state=state):
            return state
        case InquiryRefused(reason=reason):
            raise RestError(400, reason)
        case _:
            raise AssertionError(f"no answer to a question for state: {answer}")


def _question(call: Call) -> StateQuestion:
    return StateQuestion(
        keys=call.query["keys"],
        operator=call.query["operator"],
        store=call.query["store"],
        limit=call.query["limit"],
    )


def _query(job: JobView, wanted: str) -> tuple[VertexView, str]:
    """The vertex and the uid of the query that `wanted` names: by its uid, or by a vertex or function that only one query
    has. Raises RestError."""
    for vertex in job.vertices:
        uids = [query.uid for each in vertex.progress for query in each.queries]
        if wanted in uids:
            return vertex, wanted
    for vertex in job.vertices:
        if wanted in (vertex.id, vertex.name, *vertex.functions):
            uids = [query.uid for each in vertex.progress for query in each.queries]
            if len(uids) == 1:
                return vertex, uids[0]
            if not uids:
                raise bad_request(f"Nothing is known of the queries of {wanted} yet: ask again when they run.")
            raise bad_request(f"{wanted} belongs to several queries: name one of {', '.join(sorted(uids))}.")
    raise not_found(f"Job {job.job_id} ({job.name}) has no query, vertex or function {wanted!r}.")
