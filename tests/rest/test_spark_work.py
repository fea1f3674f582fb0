"""What Spark does for an attempt, by REST: only that of this attempt, to who may know it, or why there is nothing."""

from pathlib import Path
from typing import Any

import pytest

from firesteel.adapters.inspection import sparkwork
from firesteel.model.resources import LOCAL_SPARK, SparkApplication
from firesteel.testing.backend import FakeTaskBackend, TaskScript
from tests.rest.cluster import graph, rest_cluster, submission
from tests.rest.conftest import Do
from tests.rest.sparkapi import APPLICATION, answers, spark_api
from tests.rest.test_spark_pages import USERS

JOB = graph("a*2 => b", "job")
A = JOB.vertices[0].id
TAG = f"firesteel-{JOB.job_id}-1-0"
"""Of the second subtask of `a`."""


def place(subtask: int = 1, attempt: int = 0) -> str:
    return f"/jobs/{JOB.job_id}/vertices/{A}/subtasks/{subtask}/attempts/{attempt}/spark"


def shown_at(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = SparkApplication(LOCAL_SPARK, tracking_url=url, is_shared=True)
    monkeypatch.setattr(FakeTaskBackend, "applications", lambda backend: [shared])


def test_the_work_of_an_attempt(do: Do, script: TaskScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known, asked = answers(TAG), list[str]()

    async def story() -> None:
        async with spark_api(known, asked) as url, rest_cluster(tmp_path, script=script) as rest:
            script.hold("a")
            await rest.submit(JOB)
            await script.until_running("a", 2)
            off = await rest.get(place())
            assert (off["work"]["queries"], "taskmanager.spark.ui: true" in off["missing"]) == ([], True)
            shown_at(url, monkeypatch)
            told = await rest.get(place())
            assert told["missing"] == ""
            running, done = told["work"]["queries"]
            assert (running["query"], running["status"], done["query"], done["duration"]) == (3, "RUNNING", 2, 4_960)
            assert [(each["node"], each["feeds"], each["codegen"]) for each in done["nodes"]] == [
                (0, -1, -1), (1, 0, -1), (3, -1, -1), (4, 1, 2), (6, 4, -1), (10, 6, 1),
            ]  # fmt: skip
            assert done["nodes"][3]["figures"][0] == ["number of output rows", "7"]
            assert "geheim" not in str(told)
            stages = [
                (each["stage"], each["attempt"], each["query"], each["status"]) for each in told["work"]["stages"]
            ]
            assert stages == [(5, 0, 3, "ACTIVE"), (4, 0, 2, "FAILED"), (4, 1, 2, "COMPLETE"), (3, 0, 2, "COMPLETE")]
            first, failed, again, _ = told["work"]["stages"]
            assert (first["done"], first["tasks"], first["ended"], first["started"]) == (1, 4, -1, 1_795_536_406_757)
            assert (failed["name"], failed["failed"], again["name"]) == ("save at Sink.scala:7", 1, "")
            assert (again["shuffle_bytes_read"], again["disk_bytes_spilled"], again["rows_read"]) == (
                1_748,
                5_000_000,
                100_000,
            )
            assert told["work"]["total"] == {
                "spark_ms": 4_960,
                "tasks": 1 + 3 + 4 + 4,
                "task_ms": 8_000,
                "shuffle_bytes_read": 1_748,
                "shuffle_bytes_written": 4 * 1_748,
                "memory_bytes_spilled": 0,
                "disk_bytes_spilled": 5_000_000,
            }, "the two queries began at the same time"
            assert not [each for each in asked if "/sql/1" in each or "/stages/2" in each or "/stages/0" in each]
            nothing = await rest.get(place(subtask=0))
            assert (nothing["missing"], nothing["work"]["stages"]) == ("", [])
            await rest.get(place(attempt=1), 404)
            script.release("a")

    do(story())


def test_a_lot_of_work_is_cut_and_what_is_not_understood_is_said(
    do: Do, script: TaskScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: dict[str, Any] = answers(TAG)
    for name in ("QUERIES_MAX", "STAGES_MAX"):
        monkeypatch.setattr(sparkwork, name, 1)

    async def story() -> None:
        async with spark_api(known) as url, rest_cluster(tmp_path, script=script) as rest:
            script.hold("a")
            await rest.submit(JOB)
            await script.until_running("a", 2)
            shown_at(url, monkeypatch)
            work = (await rest.get(place()))["work"]
            assert (work["truncated"], [each["query"] for each in work["queries"]]) == (True, [3])
            assert [each["stage"] for each in work["stages"]] == [5]
            for answer, words in ((b"<html>", "is not understood"), (None, "status 404"), ([{}], "is not understood")):
                known[f"{APPLICATION}/jobs"] = answer
                assert words in (await rest.get(place()))["missing"]
            known["/api/v1/applications"] = []
            assert "has not begun" in (await rest.get(place()))["missing"]
            script.release("a")

    do(story())


def test_what_spark_has_forgotten_hides_nothing_else(
    do: Do, script: TaskScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: dict[str, Any] = answers(TAG)
    for name in ("stages/4", "sql/2"):
        del known[f"{APPLICATION}/{name}"]

    async def story() -> None:
        async with spark_api(known) as url, rest_cluster(tmp_path, script=script) as rest:
            script.hold("a")
            await rest.submit(JOB)
            await script.until_running("a", 2)
            shown_at(url, monkeypatch)
            told = await rest.get(place())
            assert (told["missing"], told["work"]["truncated"]) == ("", True)
            assert [each["query"] for each in told["work"]["queries"]] == [3]
            assert [each["stage"] for each in told["work"]["stages"]] == [5, 3]
            script.release("a")

    do(story())


def test_it_is_for_the_jobs_owner_and_who_operates(
    do: Do, script: TaskScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        users = tmp_path / "users.yaml"
        users.write_text(USERS)
        with_users = rest_cluster(tmp_path, script=script, options={"rest.users-file": str(users)})
        async with spark_api(answers(TAG)) as url, with_users as rest:
            script.hold("a")
            sam = {"Authorization": "Bearer sam"}
            assert (await rest.http.post("/jobs", headers=sam, files=submission(JOB))).status_code == 202
            await script.until_running("a", 2)
            shown_at(url, monkeypatch)
            found = [
                (await rest.http.get(place(), headers={"Authorization": f"Bearer {who}"})).status_code
                for who in ("vera", "sam", "olga")
            ]
            assert found == [403, 200, 200], "also where all jobs share one Spark"
            script.release("a")

    do(story())
