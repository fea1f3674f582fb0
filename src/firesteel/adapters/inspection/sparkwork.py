"""What Spark's own REST API tells of one attempt: asked when somebody looks, and cut down to that before it leaves the worker."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from firesteel.adapters.inspection.sparkpages import application_of, read_page
from firesteel.model.inquiries import (
    AnyAnswer,
    InquiryRefused,
    LookAtSparkWork,
    ReadSparkPage,
    SparkPage,
    SparkWorkSeen,
)
from firesteel.model.resources import SparkApplication
from firesteel.model.secrets import redacted_text
from firesteel.model.sparkwork import (
    SparkFigure,
    SparkPlanNode,
    SparkQuery,
    SparkStage,
    SparkWork,
    operation_tag,
    total_of,
)

QUERIES_MAX = 10
"""Queries of an attempt that are told, the newest."""

STAGES_MAX = 40
"""The same of stages."""

NODES_MAX = 300
"""Nodes of a plan that are told."""

TEXT_MAX = 300
"""Characters of a node's description."""

PLAN_MAX = 50_000
"""Characters of a plan as text."""

QUERIES_LISTED_MAX = 10_000
"""Queries of all attempts that Spark is asked for, to find those; it keeps 1,000 unless told otherwise."""

REQUESTS_AT_ONCE = 4

BOILERPLATE = "Spark Connect - "
"""Begins the name that Spark gives to a stage which has none: the client's whole request follows."""

NOBODY_TELLS = (
    "no Spark tells of this job on its worker, now: Spark's own pages are off unless the worker's configuration has"
    " taskmanager.spark.ui: true, and what they told is gone when the job's Spark is"
)

T = TypeVar("T")


class _FromSpark(msgspec.Struct, frozen=True, rename="camel"):
    """What is read of Spark's JSON; the rest is left."""


class _Application(_FromSpark, frozen=True):
    id: str


class _Job(_FromSpark, frozen=True):
    job_id: int
    stage_ids: list[int] = []
    job_tags: list[str] = []


class _Metric(_FromSpark, frozen=True):
    name: str
    value: str = ""


class _Node(_FromSpark, frozen=True):
    node_id: int
    node_name: str
    desc: str = ""
    whole_stage_codegen_id: int | None = None
    metrics: list[_Metric] = []


class _Edge(_FromSpark, frozen=True):
    from_id: int
    to_id: int


class _Execution(_FromSpark, frozen=True, kw_only=True):
    id: int
    status: str
    submission_time: str = ""
    duration: int = -1
    plan_description: str = ""
    running_job_ids: list[int] = []
    success_job_ids: list[int] = []
    failed_job_ids: list[int] = []
    nodes: list[_Node] = []
    edges: list[_Edge] = []

    @property
    def jobs(self) -> set[int]:
        return {*self.running_job_ids, *self.success_job_ids, *self.failed_job_ids}


class _Stage(_FromSpark, frozen=True, kw_only=True):
    stage_id: int
    attempt_id: int
    name: str
    status: str
    num_tasks: int = 0
    num_complete_tasks: int = 0
    num_failed_tasks: int = 0
    submission_time: str | None = None
    completion_time: str | None = None
    input_records: int = 0
    input_bytes: int = 0
    output_records: int = 0
    output_bytes: int = 0
    shuffle_read_bytes: int = 0
    shuffle_write_bytes: int = 0
    memory_bytes_spilled: int = 0
    disk_bytes_spilled: int = 0
    executor_run_time: int = 0


class _Refused(Exception):
    def __init__(self, refusal: InquiryRefused) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


class _NotFound(_Refused):
    """Spark knows no such thing, or no more."""


async def look(inquiry: LookAtSparkWork, applications: Sequence[SparkApplication]) -> AnyAnswer:
    """What Spark tells of the attempt. It is found by its tag, so that what others do in a shared Spark is not told."""
    if application_of(inquiry.attempt.job_id, applications) is None:
        return InquiryRefused(reason=NOBODY_TELLS, is_missing=True)
    try:
        return SparkWorkSeen(work=await _Spark(inquiry, applications).work())
    except _Refused as refused:
        return refused.refusal


class _Spark:
    def __init__(self, inquiry: LookAtSparkWork, applications: Sequence[SparkApplication]) -> None:
        self._attempt, self._applications = inquiry.attempt, applications
        self._at_once = asyncio.Semaphore(REQUESTS_AT_ONCE)

    async def work(self) -> SparkWork:
        found = await self._get("/api/v1/applications", list[_Application])
        if not found:
            raise _Refused(InquiryRefused(reason="Spark has not begun to tell what it does: look again."))
        base = f"/api/v1/applications/{found[0].id}"
        jobs = [each for each in await self._get(f"{base}/jobs", list[_Job]) if self._is_mine(each)]
        listed = f"{base}/sql?details=false&planDescription=false&length={QUERIES_LISTED_MAX}"
        numbers = {each.job_id for each in jobs}
        queries = [each for each in await self._get(listed, list[_Execution]) if each.jobs & numbers] if jobs else []
        queries.sort(key=lambda each: -each.id)
        query_of = {job: query.id for query in queries for job in query.jobs}
        of_stage = {stage: query_of.get(job.job_id, -1) for job in jobs for stage in job.stage_ids}
        stages = sorted(of_stage, reverse=True)
        shown = await asyncio.gather(
            *(
                self._get_if_kept(f"{base}/sql/{each.id}?details=true&planDescription=true", _Execution)
                for each in queries[:QUERIES_MAX]
            )
        )
        told = await asyncio.gather(
            *(self._get_if_kept(f"{base}/stages/{each}?details=false", list[_Stage]) for each in stages[:STAGES_MAX])
        )
        queries_told = tuple(_query(each) for each in shown if each is not None)
        stages_told = tuple(_stage(each, of_stage[each.stage_id]) for attempts in told for each in attempts or ())
        return SparkWork(
            queries=queries_told,
            stages=stages_told,
            total=total_of(queries_told, stages_told),
            truncated=len(queries) > QUERIES_MAX or len(stages) > STAGES_MAX or None in shown or None in told,
        )

    def _is_mine(self, job: _Job) -> bool:
        return any(tag.endswith(f"_{operation_tag(self._attempt)}") for tag in job.job_tags)

    async def _get_if_kept(self, target: str, kind: type[T]) -> T | None:
        """None of a query or stage that Spark has forgotten: it keeps fewer of them than a job may name. Raises _Refused."""
        try:
            return await self._get(target, kind)
        except _NotFound:
            return None

    async def _get(self, target: str, kind: type[T]) -> T:
        """Raises _Refused."""
        page = ReadSparkPage(job_id=self._attempt.job_id, target=target, base="", reads_all=True)
        async with self._at_once:
            answer = await read_page(page, self._applications)
        match answer:
            case SparkPage(status=200, body=body):
                try:
                    return msgspec.json.decode(body, type=kind)
                except msgspec.DecodeError as error:
                    raise _Refused(InquiryRefused(reason=f"what Spark told is not understood: {error}")) from error
            case InquiryRefused():
                raise _Refused(answer)
            case _:
                is_missing = isinstance(answer, SparkPage) and answer.status == 404
                refused = _NotFound if is_missing else _Refused
                raise refused(InquiryRefused(reason=f"Spark does not tell it: {_status_of(answer)}"))


def _status_of(answer: AnyAnswer) -> str:
    return f"status {answer.status}" if isinstance(answer, SparkPage) else type(answer).__name__


def _query(found: _Execution) -> SparkQuery:
    feeds = {edge.from_id: edge.to_id for edge in found.edges}
    return SparkQuery(
        query=found.id,
        status=found.status,
        started=_ms(found.submission_time),
        duration=found.duration,
        plan=redacted_text(found.plan_description)[:PLAN_MAX],
        nodes=tuple(_nodes(found.nodes, feeds)),
    )


def _nodes(nodes: Iterable[_Node], feeds: dict[int, int]) -> list[SparkPlanNode]:
    found = [
        SparkPlanNode(
            node=each.node_id,
            name=each.node_name,
            description=redacted_text(each.desc)[:TEXT_MAX],
            feeds=feeds.get(each.node_id, -1),
            codegen=-1 if each.whole_stage_codegen_id is None else each.whole_stage_codegen_id,
            figures=tuple(SparkFigure(metric.name, metric.value) for metric in each.metrics if metric.value),
        )
        for each in nodes
    ]
    return sorted(found, key=lambda node: node.node)[:NODES_MAX]


def _stage(found: _Stage, query: int) -> SparkStage:
    return SparkStage(
        stage=found.stage_id,
        attempt=found.attempt_id,
        name="" if found.name.startswith(BOILERPLATE) else redacted_text(found.name)[:TEXT_MAX],
        query=query,
        status=found.status,
        tasks=found.num_tasks,
        done=found.num_complete_tasks,
        failed=found.num_failed_tasks,
        started=_ms(found.submission_time),
        ended=_ms(found.completion_time),
        rows_read=found.input_records,
        bytes_read=found.input_bytes,
        rows_written=found.output_records,
        bytes_written=found.output_bytes,
        shuffle_bytes_read=found.shuffle_read_bytes,
        shuffle_bytes_written=found.shuffle_write_bytes,
        memory_bytes_spilled=found.memory_bytes_spilled,
        disk_bytes_spilled=found.disk_bytes_spilled,
        task_ms=found.executor_run_time,
    )


def _ms(text: str | None) -> int:
    """Of a time as Spark writes it; -1 when there is none."""
    if not text:
        return -1
    then = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fGMT").replace(tzinfo=UTC)
    return int(then.timestamp() * 1_000)
