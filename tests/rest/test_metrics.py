"""Flink's metric routes, with figures that were measured."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from firesteel.client.http import HttpClusterClient
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import JobType
from firesteel.model.metric import Kind
from firesteel.model.metrics import FORK_SERVER_SPARES, JOB_IO, JVM_HEAP_USED, TASK_IO
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.streams import QueryProgress
from firesteel.model.tasks import IOMetrics
from firesteel.model.views import JobView, QueuePlace, VertexView
from firesteel.rest.metrics.backlog import backlog_level, backlog_ratio
from firesteel.rest.metrics.figures import job_values
from firesteel.rest.metrics.selection import AGGREGATIONS, SUBTASKS_MAX, number_text, skew, subtasks
from firesteel.rest.metrics.sources import JOBS_A_TURN, job_views
from firesteel.runtime.resourcemanager import ResourceManagerEndpoint
from firesteel.testing.backend import TaskScript
from tests.core.test_figures import with_sources
from tests.rest.cluster import RestCluster, graph, rest_cluster
from tests.rest.conftest import Do

WORDS = graph("lines*2 => counts -> result", "words")
IO = IOMetrics(
    rows_read=10, bytes_read=100, rows_written=5, bytes_written=50, tasks=3, spark_ms=70, memory_peak_bytes=9_000
)
OPTIONS = {"heartbeat.interval": "100 ms", "metrics.fetcher.update-interval": "50 ms"}


def figures(answer: Any) -> dict[str, str]:
    return {each["id"]: each["value"] for each in answer}


async def names(rest: RestCluster, path: str) -> list[str]:
    """Names that a route lists: without a figure."""
    listed = await rest.get(path)
    assert all(each.keys() == {"id"} for each in listed), listed
    return [each["id"] for each in listed]


def test_a_master_tells_of_its_cluster(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        script.hold("lines")
        async with rest_cluster(tmp_path, script=script, options={"taskmanager.numberOfTaskSlots": "1"}) as rest:
            waits = graph("lines", "waits")
            await rest.submit(WORDS)
            await script.until_running("lines")
            await rest.submit(waits)
            await rest.queue(2)
            known = await names(rest, "/jobmanager/metrics")
            told = figures(await rest.get(f"/jobmanager/metrics?get={','.join(known)},nonsense"))
            assert list(told) == known
            assert told["numRegisteredTaskManagers"] == told["taskSlotsTotal"] == "1"
            assert told["taskSlotsAvailable"] == "0"
            assert told["numRunningJobs"] == "2"
            assert told["numLostTaskManagers"] == "0"
            assert told["jobs.FINISHED"] == "0"
            assert told["queue.default.length"] == "2", "one waits, and one lacks its second slot"
            assert 0 <= int(told["queue.default.oldestWait"]) < 300_000
            script.release("lines")
            for job in (WORDS, waits):
                await rest.finish(job.job_id)
            told = figures(await rest.get("/jobmanager/metrics?get=jobs.FINISHED,queue.default.length"))
            assert told == {"jobs.FINISHED": "2", "queue.default.length": "0"}

    do(story())


def test_figures_of_finished_attempts_stay_and_what_nobody_measured_is_absent(
    do: Do, script: TaskScript, tmp_path: Path
) -> None:
    async def story() -> None:
        script.io = IO
        async with rest_cluster(tmp_path, script=script) as rest:
            await rest.submit(WORDS)
            await rest.finish(WORDS.job_id)
            job = f"/jobs/{WORDS.job_id}"
            lines = f"{job}/vertices/{WORDS.vertices[0].id}"
            known = await names(rest, f"{lines}/metrics")
            io = ["numRecordsIn", "numBytesIn", "numRecordsOut", "numBytesOut", "sparkTasks", "sparkTime", "memoryPeak"]
            assert known == [f"{subtask}.{name}" for subtask in (0, 1) for name in io]
            assert figures(await rest.get(f"{lines}/metrics?get=1.numRecordsIn,0.numBytesOut")) == {
                "0.numBytesOut": "50",
                "1.numRecordsIn": "10",
            }
            assert figures(await rest.get(f"{lines}/subtasks/1/metrics?get=sparkTasks")) == {"sparkTasks": "3"}
            await rest.get(f"{lines}/subtasks/2/metrics", 404)
            counts = f"{job}/vertices/{WORDS.vertices[1].id}"
            assert "0.numRecordsIn" in await names(rest, f"{counts}/metrics")
            result = f"{job}/vertices/{WORDS.vertices[2].id}"
            assert await names(rest, f"{result}/metrics") == [
                f"0.{name}" for name in ("numRecordsOut", "numBytesOut", "sparkTasks", "sparkTime", "memoryPeak")
            ], "what a query of two vertices has read is told of the first"
            (of_lines, *_, of_result) = (await rest.get(job))["vertices"]
            assert (of_lines["metrics"]["spark-time"], of_lines["metrics"]["memory-peak"]) == (140, 9_000)
            assert of_result["metrics"]["spark-time"] == 70
            (first, second) = (await rest.get(f"{lines}"))["subtasks"]
            assert first["metrics"]["spark-time"] == second["metrics"]["spark-time"] == 70
            (on_worker,) = (await rest.get(f"{lines}/taskmanagers"))["taskmanagers"]
            assert (on_worker["metrics"]["spark-time"], on_worker["metrics"]["memory-peak"]) == (140, 9_000)
            assert await rest.get(f"{lines}/jm-operator-metrics") == []
            told = figures(await rest.get(f"{job}/metrics?get=numRestarts,numRecordsIn,tasks.FINISHED,uptime"))
            assert told == {"numRestarts": "0", "numRecordsIn": "30", "tasks.FINISHED": "4"}

    do(story())


def test_figures_are_aggregated_over_what_is_named(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        script.io = IO
        async with rest_cluster(tmp_path, script=script) as rest:
            await rest.submit(WORDS)
            await rest.finish(WORDS.job_id)
            path = f"/jobs/{WORDS.job_id}/vertices/{WORDS.vertices[0].id}/subtasks/metrics"
            assert "numRecordsIn" in await names(rest, path)
            everything = {"id": "numRecordsIn", "min": 10.0, "max": 10.0, "avg": 10.0, "sum": 20.0, "skew": 0.0}
            assert await rest.get(f"{path}?get=numRecordsIn,nonsense") == [everything]
            one = [{"id": "numRecordsIn", "sum": 10.0}]
            assert await rest.get(f"{path}?get=numRecordsIn&agg=sum&subtasks=1") == one
            assert await rest.get(f"{path}?get=numRecordsIn&subtasks=7") == []
            await rest.get(f"{path}?get=numRecordsIn&agg=mode", 400)
            await rest.get(f"{path}?subtasks=3-1", 400)
            other = "0" * 32
            assert await rest.get(f"/jobs/metrics?get=numRecordsIn&agg=max&jobs={WORDS.job_id},{other}") == [
                {"id": "numRecordsIn", "max": 30.0}
            ]
            assert await rest.get(f"/jobs/metrics?jobs={other}") == []
            assert "numRestarts" in await names(rest, "/jobs/metrics")

    do(story())


def test_views_of_many_jobs_hold_up_nobody(
    do: Do, script: TaskScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firesteel.assembly.client.QUEUE_KEPT_S", 60.0)
    lines, queue = list[int](), ResourceManagerEndpoint.queue

    def counted(self: ResourceManagerEndpoint) -> dict[JobID, QueuePlace]:
        lines.append(1)
        return queue(self)

    async def ticking(ticks: list[int]) -> None:
        while True:
            ticks.append(1)
            await asyncio.sleep(0)

    async def story() -> None:
        script.hold("lines")
        async with rest_cluster(tmp_path, script=script) as rest:
            jobs = [graph("lines", f"job {number}") for number in range(4 * JOBS_A_TURN)]
            for job in jobs:
                await rest.submit(job)
            monkeypatch.setattr(ResourceManagerEndpoint, "queue", counted)
            assert "numRestarts" in await names(rest, "/jobs/metrics")
            assert len(lines) <= 2, "the line for slots is worked out for all of them, not for each"
            ticks, unknown = list[int](), JobID("0" * 32)
            task = asyncio.create_task(ticking(ticks))
            views = [view async for view in job_views(rest.cluster.client, [unknown, *(job.job_id for job in jobs)])]
            assert [view.job_id for view in views] == [job.job_id for job in jobs]
            assert len(ticks) >= 4
            task.cancel()
            script.release("lines")

    do(story())


def test_a_job_that_runs_tells_its_times(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        script.hold("lines")
        async with rest_cluster(tmp_path, script=script) as rest:
            await rest.submit(WORDS)
            await script.until_running("lines")
            path = f"/jobs/{WORDS.job_id}/metrics"
            told = figures(await rest.get(f"{path}?get=uptime,downtime,runningTime,createdTime,tasks.CREATED"))
            assert told.keys() == {"uptime", "downtime", "runningTime", "createdTime", "tasks.CREATED"}
            assert told["downtime"] == told["createdTime"] == "0"
            assert 0 <= int(told["uptime"]) < 300_000
            assert "numRecordsIn" not in await names(rest, path)
            script.release("lines")
            await rest.finish(WORDS.job_id)
            assert "uptime" not in await names(rest, path)

    do(story())


def test_what_nobody_has_counted_is_not_told_while_other_subtasks_run() -> None:
    vertex = VertexView(
        id=WORDS.vertices[0].id,
        name="lines",
        functions=("lines",),
        parallelism=4,
        status=ExecutionState.RUNNING,
        tasks={"FINISHED": 2, "RUNNING": 2},
        attempts=1,
        io=IOMetrics(rows_written=10, bytes_written=0),
        io_lacking=("rows_written", "bytes_written"),
        io_uncounted=("bytes_written",),
    )
    job = JobView(job_id=WORDS.job_id, name="it", status=JobStatus.RUNNING, vertices=(vertex,))
    told = {each.id: each.value for each in job_values(job, 100)}
    assert told["numRecordsOut"] == 10
    assert "numBytesOut" not in told


@pytest.mark.parametrize(
    ("status", "times_ms", "down_ms"),
    [
        ("RUNNING", {"CREATED": 10, "RUNNING": 20}, 0),
        ("RESTARTING", {"RUNNING": 20, "RESTARTING": 30}, 70),
        ("FAILING", {"RUNNING": 20, "RESTARTING": 30, "FAILING": 90}, 70),
        ("FAILING", {"RESTARTING": 30, "RUNNING": 80, "FAILING": 90}, 10),
        ("RESTARTING", {"CREATED": 10, "RESTARTING": 40}, 60),
        ("CANCELLING", {}, 0),
    ],
)
def test_a_job_is_down_since_it_was_running_last(status: str, times_ms: dict[str, int], down_ms: int) -> None:
    job = JobView(job_id=WORDS.job_id, name="it", status=JobStatus(status), timestamps_ms=times_ms)
    assert {each.id: each.value for each in job_values(job, 100)}["downtime"] == down_ms


def test_what_falls_when_subtasks_run_again_is_no_counter() -> None:
    assert {metric.kind for metric in JOB_IO.values()} == {Kind.GAUGE}
    assert {metric.kind for metric in TASK_IO.values()} == {Kind.COUNTER}, "it begins at 0 with each attempt"


def test_workers_tell_what_they_measure(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        script.figures = [JVM_HEAP_USED.of(1 << 20), FORK_SERVER_SPARES.of(2)]
        async with rest_cluster(tmp_path, script=script, workers=2, options=OPTIONS) as rest:
            first, second = sorted(rest.cluster.workers)
            path = f"/taskmanagers/{first}/metrics"
            while "forkServer.spares" not in (await names(rest, path)):
                pass
            told = figures(await rest.get(f"{path}?get=Status.JVM.Memory.Heap.Used,forkServer.spares,slots.free"))
            assert told == {"Status.JVM.Memory.Heap.Used": str(1 << 20), "forkServer.spares": "2", "slots.free": "2"}
            assert "Status.JVM.Memory.Heap.Max" not in await names(rest, path)
            assert (await rest.get("/taskmanagers/metrics?get=slots.total&agg=sum")) == [
                {"id": "slots.total", "sum": 4.0}
            ]
            chosen = f"/taskmanagers/metrics?get=slots.total&agg=sum,min&taskmanagers={second},nobody"
            assert await rest.get(chosen) == [{"id": "slots.total", "sum": 2.0, "min": 2.0}]
            await rest.get("/taskmanagers/nobody/metrics", 404)

    do(story())


def test_skew_is_flinks() -> None:
    """Flink's own example: figures of 80 and 120 have a skew of 20 percent."""
    assert skew([80.0, 120.0]) == 20.0
    assert skew([0.0, 0.0]) == 0.0
    assert skew([100.0, 0.0, 0.0, 0.0]) == 100.0
    assert {name: function([80.0, 120.0]) for name, function in AGGREGATIONS.items()} == {
        "min": 80.0,
        "max": 120.0,
        "avg": 100.0,
        "sum": 200.0,
        "skew": 20.0,
    }


def test_figures_are_written_as_flink_writes_them() -> None:
    assert [number_text(value) for value in (3.0, 3, 0.25, 1e15)] == ["3", "3", "0.25", "1000000000000000"]


def test_subtasks_are_named_by_numbers_and_ranges() -> None:
    assert subtasks("0,3-5") == (range(1), range(3, 6))
    assert subtasks("7,5-6,1-5,2,9") == (range(1, 8), range(9, 10))
    whole = f"0-{SUBTASKS_MAX - 1}"
    assert subtasks(whole) == (range(SUBTASKS_MAX),)
    for text in ("x", "3-1", "-1", "1-", "0-99999999", f"{whole},0", f"0,0,{whole}"):
        with pytest.raises(ValueError):
            subtasks(text)


def test_a_stream_tells_of_its_checkpoints_and_queries(do: Do, tmp_path: Path) -> None:
    counted = QueryProgress(
        uid="counted",
        batch_id=7,
        input_rows=30,
        input_rows_per_second=2.5,
        processed_rows_per_second=10.0,
        batch_duration_ms=40,
        state_rows=3,
        state_bytes=900,
        watermark_ms=1_700_000_000_000,
    )
    script = TaskScript(queries=(counted, QueryProgress(uid="raw", input_rows=5)))
    stream = with_sources(graph("clicks -> counts", "stream", job_type=JobType.STREAMING), "clicks")
    job, clicks = f"/jobs/{stream.job_id}", f"/jobs/{stream.job_id}/vertices/{stream.vertices[0].id}"

    async def story() -> None:
        script.hold("clicks")
        async with rest_cluster(tmp_path, script=script) as rest:
            await rest.submit(stream)
            await script.until_running("clicks")
            while "queries.counted.batch" not in await names(rest, f"{job}/metrics"):
                await asyncio.sleep(0.01)
            async with HttpClusterClient([rest.server.address]) as client:
                await client.take_checkpoint(stream.job_id)
            known = [name for name in await names(rest, f"{job}/metrics") if "heckpoint" in name or "queries" in name]
            told = figures(await rest.get(f"{job}/metrics?get={','.join(known)}"))
            assert int(told.pop("lastCheckpointDuration")) >= 0
            assert int(told.pop("lastCheckpointSize")) >= 0
            assert told == {
                "numberOfCompletedCheckpoints": "1",
                "numberOfFailedCheckpoints": "0",
                "numberOfInProgressCheckpoints": "0",
                "totalNumberOfCheckpoints": "1",
                "lastCompletedCheckpointId": "1",
                "queries.counted.batch": "7",
                "queries.counted.batchDuration": "40",
                "queries.counted.stateRows": "3",
                "queries.counted.stateMemory": "900",
                "queries.counted.watermark": "1700000000000",
                "queries.counted.inputRowsPerSecond": "2.5",
                "queries.counted.processedRowsPerSecond": "10",
            }, "nothing of a query that Spark has not told of"
            await check_that_it_keeps_up(rest, clicks)
            assert figures(await rest.get(f"{clicks}/watermarks")) == {"0.currentInputWatermark": "1700000000000"}
            wanted = "0.numRecordsIn,0.numRecordsInPerSecond,0.currentInputWatermark,0.numBytesIn"
            assert figures(await rest.get(f"{clicks}/metrics?get={wanted}")) == {
                "0.numRecordsIn": "35",
                "0.numRecordsInPerSecond": "2.5",
                "0.currentInputWatermark": "1700000000000",
            }, "bytes are not measured"
            scraped = (await rest.http.get("/metrics")).text
            labels = f'job_id="{stream.job_id}",job_name="stream"'
            assert f'firesteel_job_queries_state_memory_bytes{{{labels},query="counted"}} 900.0' in scraped
            assert f"firesteel_job_number_of_completed_checkpoints_total{{{labels}}} 1.0" in scraped
            script.release("clicks")
            await rest.finish(stream.job_id)
            assert "queries.counted.batch" not in await names(rest, f"{job}/metrics")

    do(story())


async def check_that_it_keeps_up(rest: RestCluster, vertex: str) -> None:
    found = await rest.get(f"{vertex}/backpressure")
    assert (found["status"], found["backpressureLevel"]) == ("ok", "ok")
    assert found["subtasks"] == [{"subtask": 0, "attempt-number": 0, "backpressureLevel": "ok", "ratio": 0.0}]


def measured(given: float, done: float, batch_duration_ms: int = 5) -> QueryProgress:
    return QueryProgress(
        uid="it",
        batch_duration_ms=batch_duration_ms,
        input_rows_per_second=given,
        processed_rows_per_second=done,
    )


@pytest.mark.parametrize(
    ("queries", "ratio", "level"),
    [
        ([measured(10, 20)], 0.0, "ok"),
        ([measured(0, 0)], 0.0, "ok"),
        ([measured(100, 90)], 0.1, "ok"),
        ([measured(100, 89), measured(10, 20)], 0.11, "low"),
        ([measured(10, 5)], 0.5, "low"),
        ([measured(10, 0)], 1.0, "high"),
        ([measured(10, 0, batch_duration_ms=-1), measured(10, 4)], 0.6, "high"),
    ],
)
def test_the_slowest_query_says_how_far_a_stream_falls_behind(
    queries: list[QueryProgress], ratio: float, level: str
) -> None:
    found = backlog_ratio(queries)
    assert found == pytest.approx(ratio)
    assert backlog_level(round(found or 0.0, 9)) == level


def test_what_no_query_was_measured_of_is_absent() -> None:
    assert backlog_ratio([]) is None
    assert backlog_ratio([measured(10, 1, batch_duration_ms=-1)]) is None
