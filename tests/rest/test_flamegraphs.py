"""Flame graphs by REST: of what runs, as Flink's dashboard draws them."""

from pathlib import Path

from firesteel.model.stacks import SampledStack
from firesteel.testing.backend import TaskScript
from tests.rest.cluster import graph, rest_cluster
from tests.rest.conftest import Do

STACKS = (
    SampledStack(frames=("Python", "main", "totals"), is_waiting=False, count=3),
    SampledStack(frames=("Python", "main", "wait"), is_waiting=True, count=2),
    SampledStack(frames=("JVM: Spark tasks", "run"), is_waiting=False, count=5),
)
OPTIONS = {"rest.flamegraph.num-samples": "7", "rest.flamegraph.delay-between-samples": "3 ms"}


def test_where_a_vertex_is(do: Do, tmp_path: Path) -> None:
    script = TaskScript(stacks=STACKS)
    job = graph("lines*2 => counts", "job")
    lines, counts = (vertex.id for vertex in job.vertices)
    place = f"/jobs/{job.job_id}/vertices"

    async def story() -> None:
        script.hold("lines")
        async with rest_cluster(tmp_path, script=script, options=OPTIONS) as rest:
            await rest.submit(job)
            await script.until_running("lines", 2)
            while (await rest.get(f"{place}/{lines}"))["subtasks"][1]["status"] != "RUNNING":
                pass
            told = await rest.get(f"{place}/{lines}/flamegraph")
            assert told["endTimestamp"] > 0
            root = told["data"]
            assert (root["name"], root["value"]) == ("root", 20)
            jvm, python = root["children"]
            assert (jvm["name"], jvm["value"], python["value"]) == ("JVM: Spark tasks", 10, 10)
            (main,) = python["children"]
            assert [(each["name"], each["value"]) for each in main["children"]] == [("totals", 6), ("wait", 4)]
            assert [(each.samples, each.delay_ms, each.depth) for each in script.stack_orders] == [(7, 3, 100)] * 2
            for kind, value in (("on_cpu", 16), ("OFF_CPU", 4)):
                again = await rest.get(f"{place}/{lines}/flamegraph?type={kind}")
                assert (again["data"]["value"], again["endTimestamp"]) == (value, told["endTimestamp"])
            assert len(script.stack_orders) == 2, "it is young enough"
            await rest.get(f"{place}/{lines}/flamegraph?subtaskindex=1")
            (order,) = script.stack_orders[2:]
            assert (order.attempt.region, order.attempt.attempt) == (1, 0)
            assert (await rest.get(f"{place}/{counts}/flamegraph"))["endTimestamp"] == -1, "nothing of it runs"
            await rest.get(f"{place}/{lines}/flamegraph?type=other", 400)
            script.release("lines")

    do(story())


def test_they_can_be_switched_off(do: Do, tmp_path: Path) -> None:
    job = graph("lines", "job")

    async def story() -> None:
        options = {"rest.flamegraph.enabled": "false"}
        async with rest_cluster(tmp_path, script=TaskScript(), options=options) as rest:
            await rest.submit(job)
            told = await rest.get(f"/jobs/{job.job_id}/vertices/{job.vertices[0].id}/flamegraph")
            assert told["endTimestamp"] == -2

    do(story())
