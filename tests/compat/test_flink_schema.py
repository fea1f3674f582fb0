"""What Flink's own document describes and we serve is what it describes: of jobs in all their states."""

import asyncio
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from firesteel.model.ids import derived_id
from firesteel.rest.routes import ROUTES
from firesteel.testing.backend import TaskScript
from tests.compat import flinkschema
from tests.rest.cluster import RestCluster, graph, rest_cluster

STATES = ("FINISHED", "FAILED", "CANCELED", "RUNNING")

NOT_SERVED = {
    "/applications/{applicationid}/jobmanager/config": "served under its job's id, as all of an application is",
    "/datasets/{datasetid}": "no data set outlives its job",
    "/jobs/{jobid}/jobmanager/log-url": "history server only",
    "/jobs/{jobid}/taskmanagers/{taskmanagerid}/log-url": "history server only",
    "/jobs/{jobid}/rescaling": "Flink itself answers that it is disabled",
    "/jobs/{jobid}/rescaling/{triggerid}": "Flink itself answers that it is disabled",
}
"""Paths of the document that we do not serve, with the reason."""

NOTHING_TO_DESCRIBE = ("/jobs/{jobid}/checkpoints", "/jobs/{jobid}/rescales/details", "/datasets/delete")
"""A batch job answers 404 there, as in Flink."""


def test_every_path_is_served_or_known_to_be_missing() -> None:
    described = {path.replace("{applicationid}", "{jobid}") for path in flinkschema.load()["paths"]}
    served = {route.path for route in ROUTES}
    missing = {path.replace("{applicationid}", "{jobid}") for path in NOT_SERVED} - {
        "/applications/{jobid}/jobmanager/config"
    }
    assert described - served == missing


def test_answers_are_as_described(tmp_path: Path) -> None:
    async def story() -> None:
        script = TaskScript()
        async with rest_cluster(tmp_path, script=script) as rest:
            jobs = await jobs_in_all_states(rest)
            assert tuple(jobs) == STATES
            checked, document = 0, flinkschema.load()
            for path, operation in readable(document):
                for state, job_id in jobs.items() if "{jobid}" in path else [("", "")]:
                    checked += await check_one(rest, path, (document, operation), job_id, state)
            assert checked > 4 * 25
            script.release("held")

    asyncio.run(story())


async def jobs_in_all_states(rest: RestCluster) -> dict[str, str]:
    """A job in each of STATES, with two subtasks and an edge between."""
    ids = {state: derived_id(state) for state in STATES}
    rest.script.fail("fails")
    rest.script.hold("held", "ended")
    for state, text in zip(STATES, ("lines*2 => it", "fails*2 => it", "ended*2 => it", "held*2 => it"), strict=True):
        await rest.submit(graph(text, state))
        if state == "CANCELED":
            await rest.script.until_running("ended", 2)
            answer = await rest.http.patch(f"/v1/jobs/{ids[state]}?mode=cancel")
            assert (answer.status_code, answer.json()) == (202, {})
        if state != "RUNNING":
            await rest.finish(ids[state])
    await rest.script.until_running("held", 2)
    found = {job["jid"]: job["state"] for job in (await rest.get("/jobs/overview"))["jobs"]}
    assert found == {ids[state]: state for state in STATES}
    return ids


def readable(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """GET operations that we serve."""
    served = {route.path for route in ROUTES}
    paths = {path.replace("{applicationid}", "{jobid}"): methods for path, methods in document["paths"].items()}
    return [(path, methods["get"]) for path, methods in paths.items() if "get" in methods and path in served]


async def check_one(rest: RestCluster, path: str, described: tuple[Any, Any], job_id: str, state: str) -> bool:
    """Whether there was something to check."""
    worker = (await rest.get("/taskmanagers"))["taskmanagers"][0]["id"]
    trigger = await trigger_id(rest, path, job_id)
    vertex = (await rest.get(f"/jobs/{job_id}"))["vertices"][0]["id"] if job_id else ""
    filled = path.format(
        jobid=job_id,
        vertexid=vertex,
        taskmanagerid=worker,
        subtaskindex=1,
        attempt=0,
        triggerid=trigger,
        checkpointid=1,
        rescaleuuid="0" * 32,
    )
    answer = await rest.http.get(filled)
    if path.startswith(NOTHING_TO_DESCRIBE) and not path.endswith("checkpoints/{triggerid}"):
        assert answer.status_code == 404
        assert list(answer.json()) == ["errors"]
        return False
    assert answer.status_code == 200, (filled, answer.text)
    try:
        flinkschema.check(*described, 200, answer.json())
    except jsonschema.ValidationError as error:
        pytest.fail(f"{filled} of a job that is {state}: {error}\n{answer.text}")
    return True


async def trigger_id(rest: RestCluster, path: str, job_id: str) -> str:
    """Of an operation that was begun, where the path reads one."""
    if "{triggerid}" not in path:
        return "0" * 32
    body = {"savepoint-path": "/nowhere"} if "disposal" in path else {}
    answer = await rest.http.post(path.format(jobid=job_id, triggerid="").rstrip("/"), json=body)
    return str(answer.json().get("request-id", "0" * 32))
