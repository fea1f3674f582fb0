"""Spark's REST API, as Spark 4.3 answers it, with little in it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

APPLICATION = "/api/v1/applications/local-1"
SPREAD = "total (min, med, max (stageId: taskId))\n"
REQUEST = 'Spark Connect - session_id: "5e67eac8"\nuser_context {\n  user_id: "tester"\n}\nplan {...'


def tag_of(name: str) -> str:
    """As Connect makes it of the tag of a session."""
    return f"SparkConnect_SessionTag_User_tester_Session_5e67eac8_Tag_{name}"


def job(number: int, stages: list[int], tag: str) -> dict[str, Any]:
    tags = ["SparkConnect_OperationTag_User_tester_Session_5e67eac8_Operation_f638", tag_of(tag), "spark-session-f94c"]
    return {"jobId": number, "name": REQUEST, "stageIds": stages, "jobTags": tags, "status": "SUCCEEDED"}


def stage(number: int, **more: Any) -> dict[str, Any]:
    return {
        "status": "COMPLETE",
        "stageId": number,
        "attemptId": 0,
        "name": REQUEST,
        "details": "x" * 1_000,
        "numTasks": 4,
        "numCompleteTasks": 4,
        "numFailedTasks": 0,
        "submissionTime": "2026-11-24T16:06:46.757GMT",
        "completionTime": "2026-11-24T16:06:49.257GMT",
        "inputRecords": 100_000,
        "inputBytes": 1_600_000,
        "shuffleReadBytes": 0,
        "shuffleWriteBytes": 1_748,
        "memoryBytesSpilled": 0,
        "diskBytesSpilled": 0,
        "executorRunTime": 2_000,
        **more,
    }


def node(number: int, name: str, desc: str = "", code: int | None = None, **metrics: str) -> dict[str, Any]:
    figures = [{"name": key.replace("_", " "), "value": value} for key, value in metrics.items()]
    made = {"nodeId": number, "nodeName": name, "desc": desc or name, "metrics": figures}
    return made if code is None else {**made, "wholeStageCodegenId": code}


def query(number: int, jobs: list[int], **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "status": "COMPLETED",
        "description": REQUEST,
        "submissionTime": "2026-11-24T16:06:44.470GMT",
        "duration": 4_960,
        "runningJobIds": [],
        "successJobIds": jobs,
        "failedJobIds": [],
        **more,
    }


PLAN = {
    "planDescription": "== Physical Plan ==\nAdaptiveSparkPlan (15)\n+- HashAggregate (4)",
    "nodes": [
        node(0, "AdaptiveSparkPlan"),
        node(1, "Execute InsertIntoHadoopFsRelationCommand", "to jdbc:x:y?password=geheim", written_output="791.0 B"),
        node(3, "WholeStageCodegen (2)", duration="1.2 s"),
        node(
            4, "HashAggregate", "HashAggregate(keys=[k#11L])", 2, number_of_output_rows="7", spill_size="0.0 B",
            peak_memory=f"{SPREAD}8.3 MiB (2.0 MiB, 2.1 MiB, 2.2 MiB (stage 3.0: task 5))",
        ),
        node(6, "Exchange", "hashpartitioning(k#11L, 200)", shuffle_bytes_written=f"{SPREAD}1748.0 B (437.0 B, ...)"),
        node(10, "Range", "Range (0, 100000)", 1, number_of_output_rows="100,000"),
    ],
    "edges": [{"fromId": a, "toId": b} for a, b in ((1, 0), (4, 1), (6, 4), (10, 6))],
}  # fmt: skip


def answers(tag: str) -> dict[str, Any]:
    """Of an attempt with a query of two stages, another one, and what somebody else does there."""
    return {
        "/api/v1/applications": [{"id": "local-1", "name": "firesteel"}],
        f"{APPLICATION}/jobs": [job(3, [5], tag), job(2, [3, 4], tag), job(1, [2], f"{tag}0"), job(0, [0], "x")],
        f"{APPLICATION}/sql": [query(0, [0]), query(1, [1]), query(2, [2]), query(3, [], runningJobIds=[3])],
        f"{APPLICATION}/sql/2": query(2, [2], **PLAN),
        f"{APPLICATION}/sql/3": query(3, [], runningJobIds=[3], status="RUNNING", nodes=[], edges=[]),
        f"{APPLICATION}/stages/3": [stage(3)],
        f"{APPLICATION}/stages/4": [
            stage(4, status="FAILED", numFailedTasks=1, numCompleteTasks=3, name="save at Sink.scala:7"),
            stage(4, attemptId=1, shuffleReadBytes=1_748, diskBytesSpilled=5_000_000),
        ],
        f"{APPLICATION}/stages/5": [stage(5, status="ACTIVE", numCompleteTasks=1, completionTime=None)],
    }


@contextlib.asynccontextmanager
async def spark_api(known: Mapping[str, Any], asked: list[str] | None = None) -> AsyncIterator[str]:
    """Gives the address. What is no path of `known` is not found; bytes are sent as they are."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = (await reader.readuntil(b"\r\n\r\n")).decode().split()[1]
        if asked is not None:
            asked.append(target)
        found = known.get(target.partition("?")[0])
        status, body = (404, b"no") if found is None else (200, found if isinstance(found, bytes) else _json(found))
        head = f"HTTP/1.1 {status} OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
