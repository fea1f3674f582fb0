"""What is shown is true: figures are measured or absent, and nothing that was sent is dropped in silence."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from firesteel.core.effects import DISPATCHER
from firesteel.model import options
from firesteel.model.ids import derived_id
from firesteel.model.options import OPTIONS, Configuration
from firesteel.model.streams import QueryProgress
from firesteel.model.tasks import IOMetrics
from firesteel.rest.programargs import split_arguments
from firesteel.testing.backend import TaskScript
from tests.core.test_figures import with_sources
from tests.rest.cluster import RestCluster, graph, rest_cluster, submission
from tests.rest.conftest import Do
from tests.rest.test_jars import PIPELINE, post, upload

WORDS = graph("lines*2 => counts -> result", "words")


def test_hardware_is_the_machines_and_memory_is_real_or_absent(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        sizes = {"taskmanager.cpu.cores": "1", "taskmanager.spark.heap": "700m"}
        async with rest_cluster(tmp_path, script=script, options=sizes) as rest:
            (worker,) = (await rest.get("/taskmanagers"))["taskmanagers"]
            physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
            assert worker["hardware"] == {
                "cpuCores": os.cpu_count(),
                "physicalMemory": physical,
                "freeMemory": 700 << 20,
                "managedMemory": 0,
            }
            known = {name: value for name, value in worker["memoryConfiguration"].items() if value is not None}
            assert known == {"taskHeap": 700 << 20}
            metrics = (await rest.get(f"/taskmanagers/{worker['id']}"))["metrics"]
            assert set(map(str, metrics.values())) == {"None", "[]"}

    do(story())


def test_the_configuration_keeps_its_units(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path, script=script, options={"slot.idle.timeout": "7 s"}) as rest:
            shown = {each["key"]: each["value"] for each in await rest.get("/jobmanager/config")}
            assert shown["slot.idle.timeout"] == "7 s"
            assert shown["heartbeat.timeout"] == "50 s"
            assert shown["taskmanager.spark.heap"] == "1g"
            assert shown["pipeline.operator-chaining.enabled"] == "true"
            assert Configuration({key: shown[key] for key in OPTIONS}).get_option(options.HEARTBEAT_TIMEOUT) == 50_000

    do(story())


@pytest.mark.parametrize("option", OPTIONS.values(), ids=lambda option: option.key)
def test_a_default_is_written_as_it_is_read(option: Any) -> None:
    assert option.parse(option.default_text) == option.default


def test_what_nobody_measured_is_not_said_to_be_well(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path, script=script) as rest:
            await rest.submit(WORDS)
            await rest.finish(WORDS.job_id)
            vertex = f"/jobs/{WORDS.job_id}/vertices/{WORDS.vertices[0].id}"
            assert await rest.get(f"{vertex}/backpressure") == {"status": "deprecated"}
            listed = (await rest.get(f"{vertex}/subtasks/accumulators"))["subtasks"]
            assert [(each["subtask"], each["attempt"], each["user-accumulators"]) for each in listed] == [
                (0, 0, []),
                (1, 0, []),
            ]
            assert {each["endpoint"] for each in listed} == set(rest.cluster.workers)
            nodes = (await rest.get(f"/jobs/{WORDS.job_id}/plan"))["plan"]["nodes"]
            assert [(node["operator"], node["description"]) for node in nodes] == [
                ("Transform", "lines"),
                ("Transform", "counts"),
                ("Sink", "result"),
            ]

    do(story())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("--foo bar", ["--foo", "bar"]),
        ("""--foo "bar baz" 'a b'""", ["--foo", "bar baz", "a b"]),
        ('a"b c"d', ["ab", "cd"]),
        ("--a='y z' q", ["--a=y", "z", "q"]),
        ('unclosed "x y', ["unclosed", "x", "y"]),
        ("""o'clock 'b "c" d'""", ["oclock", "b c d"]),
        (" a\tb\n c ", ["a", "b", "c"]),
        ("", []),
    ],
)
def test_arguments_are_parted_as_flink_parts_them(text: str, words: list[str]) -> None:
    """The right sides, but for blanks around them all, are what Flink 2.3's own JarHandlerUtils makes of the left ones."""
    assert split_arguments(text) == words


def test_arguments_of_flinks_dashboard_and_clients_reach_the_pipeline(tmp_path: Path, do: Do) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path) as rest:
            jar_id = await upload(rest, "wordcount.py", PIPELINE)
            nothing = {"savepointPath": None, "allowNonRestoredState": None, "entryClass": None}
            runs: tuple[tuple[str, dict[str, Any]], ...] = (
                ("?program-args=--input%20%22/my%20data%22", {"programArgs": '--input "/my data"', **nothing}),
                ("?program-args=--input%20%22/my%20data%22&parallelism=1", {}),
                ("?program-args=input=/other", {"programArgs": "'input=/my data'", "parallelism": "1"}),
                ("", {"programArgsList": ["--input", "/my data"], "parallelism": ""}),
            )
            for number, (query, body) in enumerate(runs):
                job_id = derived_id("run", number)
                await post(rest, f"/jars/{jar_id}/run{query}", json={**body, "jobId": job_id})
                await rest.finish(job_id)
                view = await rest.get(f"/jobs/{job_id}/view")
                assert view["parameters"] == {"input": "/my data", "output": "/nowhere"}
            plan = await rest.get(f"/jars/{jar_id}/plan?program-args=--input%20x")
            assert [node["operator"] for node in plan["plan"]["nodes"]] == ["Source -&gt; Sink"]
            for query, body in (
                ("", {"programArgs": "a=1", "programArgsList": ["a=1"]}),
                ("?programArg=a=1&program-args=a=1", {}),
            ):
                answer = await post(rest, f"/jars/{jar_id}/run{query}", 400, json=body)
                assert "given twice" in answer["errors"][0]

    do(story())


def test_unknown_fields_of_a_body_are_refused_by_name(tmp_path: Path, do: Do, script: TaskScript) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path, script=script) as rest:
            jar_id = await upload(rest, "wordcount.py", PIPELINE)
            await rest.submit(WORDS)
            job = f"/jobs/{WORDS.job_id}"
            for path in (f"/jars/{jar_id}/run", f"/jars/{jar_id}/plan", f"{job}/savepoints", f"{job}/stop",
                         f"{job}/checkpoints", "/savepoint-disposal"):  # fmt: skip
                answer = await post(rest, path, 400, json={"savepoint-path": "/x", "programArgz": "input=/data"}
                                    if "disposal" in path else {"programArgz": "input=/data"})  # fmt: skip
                assert "programArgz" in answer["errors"][0], path
            answer = await rest.http.post("/v1/jobs", files=submission(WORDS, color="red"))
            assert (answer.status_code, "color" in answer.json()["errors"][0]) == (400, True)
            answer = await post(rest, f"/jars/{jar_id}/run", 400, json={"flinkConfiguration": {"rest.port": "1"}})
            assert "rest.port" in answer["errors"][0]

    do(story())


IO = IOMetrics(rows_read=7, bytes_read=70, tasks=3, rows_written=5, bytes_written=50)
SLOWLY = {"restart-strategy.fixed-delay.delay": "20 ms"}
FAILS_ONCE = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 ms"}


@pytest.mark.parametrize("takes_over", [False, True])
def test_what_has_finished_keeps_its_figures_and_its_attempts(
    do: Do, script: TaskScript, tmp_path: Path, takes_over: bool
) -> None:
    """Also under the next leader, and in the archive."""

    async def story() -> None:
        script.io = IO
        script.fail("lines")
        script.hold("result")
        async with rest_cluster(tmp_path, script=script, options=FAILS_ONCE) as rest:
            await rest.submit(WORDS)
            await script.until_running("result")
            if takes_over:
                rest.cluster.revoke_leadership(DISPATCHER)
                rest.cluster.grant_leadership(DISPATCHER)
            while (await rest.http.get(f"/jobs/{WORDS.job_id}/vertices/{WORDS.vertices[2].id}")).status_code != 200:
                await asyncio.sleep(0.01)
            await check_figures(rest)
            script.release("result")
            await rest.finish(WORDS.job_id)
            while WORDS.job_id in rest.cluster.store._graphs:  # type: ignore[attr-defined]
                await asyncio.sleep(0.01)
            await check_figures(rest)

    do(story())


async def check_figures(rest: RestCluster) -> None:
    """Of `lines`, whose two subtasks have finished, one of them at its second attempt."""
    job = await rest.get(f"/jobs/{WORDS.job_id}")
    metrics = job["vertices"][0]["metrics"]
    assert (metrics["read-records"], metrics["read-bytes"]) == (14, 140)
    assert (metrics["write-records"], metrics["write-bytes"]) == (10, 100)
    assert {value for name, value in metrics.items() if name.endswith("-complete")} == {True}
    start_ms, end_ms = job["vertices"][0]["start-time"], job["vertices"][0]["end-time"]
    assert 0 < start_ms <= end_ms <= start_ms + job["vertices"][0]["duration"]
    vertex = f"/jobs/{WORDS.job_id}/vertices/{WORDS.vertices[0].id}"
    subtasks = (await rest.get(vertex))["subtasks"]
    assert [(each["metrics"]["read-records"], each["metrics"]["write-bytes"]) for each in subtasks] == [(7, 50)] * 2
    assert {each["endpoint"] for each in subtasks} == set(rest.cluster.workers)
    assert sorted(each["attempt"] for each in subtasks) == [0, 1]
    (again,) = (each["subtask"] for each in subtasks if each["attempt"] == 1)
    first = await rest.get(f"{vertex}/subtasks/{again}/attempts/0")
    assert (first["attempt"], first["status"], first["endpoint"]) == (0, "FAILED", *rest.cluster.workers)
    assert 0 < first["start-time"] <= first["end-time"] == first["start-time"] + first["duration"]
    assert not first["metrics"]["read-records-complete"]
    assert (await rest.get(f"{vertex}/subtasks/{again}/attempts/1"))["status"] == "FINISHED"
    aggregated = (await rest.get(vertex))["aggregated"]["metrics"]["write-records"]
    assert (aggregated["min"], aggregated["max"], aggregated["sum"]) == (5, 5, 10)
    (worker,) = (await rest.get(f"{vertex}/taskmanagers"))["taskmanagers"]
    assert worker["metrics"]["read-bytes"] == 140


def test_what_nobody_counted_is_not_complete(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path, script=script) as rest:
            await rest.submit(WORDS)
            await rest.finish(WORDS.job_id)
            metrics = (await rest.get(f"/jobs/{WORDS.job_id}"))["vertices"][0]["metrics"]
            assert (metrics["read-records"], metrics["read-records-complete"]) == (0, False)
            assert (metrics["write-records"], metrics["write-records-complete"]) == (0, False)

    do(story())


def test_an_application_runs_since_its_job_does(do: Do, script: TaskScript, tmp_path: Path) -> None:
    """Also after a restart."""

    async def story() -> None:
        script.fail("lines")
        script.hold("result")
        async with rest_cluster(tmp_path, script=script, options=FAILS_ONCE | SLOWLY) as rest:
            await rest.submit(WORDS)
            await script.until_running("result")
            job_ms = (await rest.get(f"/jobs/{WORDS.job_id}"))["timestamps"]
            application_ms = (await rest.get(f"/applications/{WORDS.job_id}"))["timestamps"]
            assert job_ms["RUNNING"] > job_ms["RESTARTING"] > 0
            assert application_ms["RUNNING"] == job_ms["RUNNING"]
            script.release("result")

    do(story())


@pytest.mark.parametrize(
    ("text", "sources", "reader"),
    [("a -> x; a -> y", "a", "a"), ("a -> x; a -> y", "a x", ""), ("l => a; a -> x; a -> y", "l", "a"), ("a", "", "a")],
)
def test_what_a_running_region_reads_is_that_of_its_only_reader(
    do: Do, script: TaskScript, tmp_path: Path, text: str, sources: str, reader: str
) -> None:
    """As in the end: of several that read what was there before it, nobody knows which has read what."""
    plain = with_sources(graph(text, "reads"), *sources.split())
    last = plain.vertices[-1].name

    async def story() -> None:
        script.hold(last)
        script.queries = (QueryProgress(uid="q", input_rows=9),)
        async with rest_cluster(tmp_path, script=script) as rest:
            await rest.submit(plain)
            await script.until_running(last)
            base = f"/jobs/{plain.job_id}"
            while not (vertices := (await rest.get(f"{base}/view"))["vertices"])[-1]["progress"]:
                await asyncio.sleep(0.01)
            running = {each["name"]: each["id"] for each in vertices if each["progress"]}
            shown = {each["name"]: each["metrics"]["read-records"] for each in (await rest.get(base))["vertices"]}
            assert [name for name, count in shown.items() if count] == ([reader] if reader else [])
            for name, vertex in running.items():
                (worker,) = (await rest.get(f"{base}/vertices/{vertex}/taskmanagers"))["taskmanagers"]
                assert worker["metrics"]["read-records"] == (9 if name == reader else 0)
                one, every = (f"{base}/vertices/{vertex}{path}/metrics" for path in ("/subtasks/0", ""))
                together = f"{base}/vertices/{vertex}/subtasks/metrics"
                for path, read in ((one, "numRecordsIn"), (every, "0.numRecordsIn"), (together, "numRecordsIn")):
                    assert (read in [each["id"] for each in await rest.get(path)]) == (name == reader), path
            script.release(last)

    do(story())
