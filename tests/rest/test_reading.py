"""What clients read: Flink's names, units and words, with the facts of the job behind them."""

import base64
from pathlib import Path

import msgspec

from firesteel.client.http import HttpClusterClient
from firesteel.core.effects import DISPATCHER
from firesteel.model.ids import derived_id
from firesteel.model.resources import ResourceProfile
from firesteel.testing.backend import TaskScript
from tests.rest.cluster import graph, rest_cluster
from tests.rest.conftest import Do

WORDS = graph(
    "lines*2 => counts -> <b>*1".replace("<b>", "result"),
    "words",
    parameters={"input": "data.txt", "api_token": "geheim", "url": "jdbc:x://me:geheim@host/db?password=geheim&a=b"},
    configuration={"spark.hadoop.fs.s3a.secret.key": "geheim", "restart-strategy.type": "none"},
)
BIG = ResourceProfile(labels=("big",))


def test_a_job_that_has_run(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path, script=script) as rest:
            named = msgspec.structs.replace(WORDS.vertices[0], name="<script>alert(1)</script>")
            job = msgspec.structs.replace(WORDS, vertices=(named, *WORDS.vertices[1:]))
            await rest.submit(job)
            await rest.finish(job.job_id)
            (line,) = (await rest.get("/v1/jobs/overview"))["jobs"]
            assert (line["jid"], line["name"], line["state"], line["jobType"]) == (
                job.job_id,
                "words",
                "FINISHED",
                "BATCH",
            )
            assert line["tasks"]["finished"] == line["tasks"]["total"] == 4
            assert line["start-time"] + line["duration"] == line["end-time"] <= line["last-modification"]
            details = await rest.get(f"/jobs/{job.job_id}")
            assert [vertex["status"] for vertex in details["vertices"]] == ["FINISHED"] * 3
            assert details["vertices"][0]["tasks"]["FINISHED"] == 2
            assert details["status-counts"]["FINISHED"] == 3
            nodes = details["plan"]["nodes"]
            assert nodes[0]["description"] == "&lt;script&gt;alert(1)&lt;/script&gt;"
            (edge,) = nodes[1]["inputs"]
            assert (edge["id"], edge["ship_strategy"], edge["exchange"]) == (named.id, "REBALANCE", "blocking")
            vertex = await rest.get(f"/jobs/{job.job_id}/vertices/{named.id}")
            assert [task["subtask"] for task in vertex["subtasks"]] == [0, 1]
            assert {task["endpoint"] for task in vertex["subtasks"]} == set(rest.cluster.workers)
            assert all(task["start-time"] == task["start_time"] > 0 for task in vertex["subtasks"])
            overview = await rest.get("/overview")
            assert (overview["jobs-finished"], overview["jobs-running"], overview["slots-available"]) == (1, 0, 2)

    do(story())


def test_secrets_are_hidden(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        secret = {"spark.ssl.keyStorePassword": "geheim", "rest.port": "0"}
        async with rest_cluster(tmp_path, script=script, options=secret) as rest:
            await rest.submit(WORDS)
            await rest.finish(WORDS.job_id)
            paths = (
                "/jobmanager/config",
                *(f"/jobs/{WORDS.job_id}/{part}" for part in ("config", "view", "jobmanager/config")),
            )
            for path in paths:
                answer = await rest.http.get(path)
                assert answer.status_code == 200
                assert "geheim" not in answer.text, path
                assert "******" in answer.text, path
            events = await rest.http.get(f"/jobs/{WORDS.job_id}/events")
            assert "geheim" not in events.text
            config = (await rest.get(f"/jobs/{WORDS.job_id}/config"))["execution-config"]["user-config"]
            assert config["url"] == "jdbc:x://me:******@host/db?password=******&a=b"
            assert config["input"] == "data.txt"

    do(story())


def test_secrets_in_failures_are_hidden(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        script.fail("lines", message="jdbc:x://me:geheim@host refused token=geheim")
        async with rest_cluster(tmp_path, script=script) as rest:
            job = graph("lines", "fails")
            await rest.submit(job)
            cause = (await rest.finish(job.job_id))["failure-cause"]
            assert b"geheim" not in base64.b64decode(cause["serialized-throwable"])
            parts = ("exceptions", "view", "events", "execution-result")
            for path in (*(f"/jobs/{job.job_id}/{part}" for part in parts), f"/applications/{job.job_id}/exceptions"):
                answer = await rest.http.get(path)
                assert answer.status_code == 200, path
                assert "geheim" not in answer.text, path
                assert "jdbc:x://me:******@host refused token=******" in answer.text, path

    do(story())


def test_what_is_not_there(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path, script=script) as rest:
            await rest.submit(WORDS)
            await rest.finish(WORDS.job_id)
            job, vertex, unknown = WORDS.job_id, WORDS.vertices[0].id, "0" * 32
            for path, status, words in (
                ("/v1/nope", 404, "Not found: /v1/nope"),
                (f"/jobs/{unknown}", 404, "Job could not be found"),
                (f"/jobs/{unknown}/execution-result?wait=1", 404, "Job could not be found"),
                ("/jobs/nonsense", 400, "jobid"),
                (f"/jobs/{job}/vertices/{unknown}", 404, "No vertex"),
                (f"/jobs/{job}/vertices/{vertex}/subtasks/7", 404, "Subtask 7"),
                (f"/jobs/{job}/vertices/{vertex}/subtasks/x", 400, "subtaskindex"),
                (f"/jobs/{job}/vertices/{vertex}/subtasks/0/attempts/5", 404, "these are: 0"),
                (f"/jobs/{job}/exceptions?maxExceptions=many", 400, "maxExceptions"),
                (f"/jobs/{job}/exceptions?failureLabelFilter=USER", 400, "failureLabelFilter"),
                (f"/jobs/{job}/exceptions?failureLabelFilter=type:", 400, "failureLabelFilter"),
                (f"/jobs/{job}/execution-result?wait=soon", 400, "wait"),
                (f"/jobs/{unknown}/output", 404, "Job could not be found"),
                (f"/jobs/{job}/output?stream=log", 400, "stream"),
                (f"/jobs/{job}/output?offset=-1", 400, "offset"),
                (f"/jobs/{job}/checkpoints", 404, "Checkpointing is not enabled"),
                (f"/jobs/{job}/savepoints/{unknown}", 404, "no savepoint operation with triggerId="),
                ("/taskmanagers/nobody", 404, "nobody"),
                ("/jobmanager/logs/..%2F..%2Fsecret.log", 404, "ot found"),
                ("/jobmanager/stdout", 404, "File not found."),
            ):
                answer = await rest.http.get(path)
                assert answer.status_code == status, (path, answer.text)
                (error,) = answer.json()["errors"]
                assert words in error, path
            assert (await rest.http.delete("/v1/overview")).status_code == 405

    do(story())


def test_labels_of_workers_and_functions(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path, script=script) as rest:
            big = await rest.cluster.start_task_executor({"taskmanager.labels": "gpu, big"})
            wanting = [msgspec.structs.replace(each, resources=BIG) for each in WORDS.vertices]
            job = msgspec.structs.replace(WORDS, vertices=tuple(wanting))
            await rest.submit(job)
            await rest.finish(job.job_id)
            vertices = (await rest.http.get(f"/v1/jobs/{job.job_id}")).json()["vertices"]
            assert all(vertex["labels"] == ["big"] for vertex in vertices)
            workers = (await rest.http.get("/v1/taskmanagers")).json()["taskmanagers"]
            assert [worker["labels"] for worker in workers] == [[], ["big", "gpu"]]
            assert (await rest.http.get(f"/v1/taskmanagers/{big}")).json()["labels"] == ["big", "gpu"]
            async with HttpClusterClient([rest.server.address]) as client:
                assert await client.count_labels() == {"big": 1, "gpu": 1}

    do(story())


def test_the_masters_log(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "jobmanager.log").write_text("all is well\n")
        (tmp_path / "jobmanager.pid").write_text("1\n")
        async with rest_cluster(tmp_path, script=script) as rest:
            (log,) = (await rest.get("/jobmanager/logs"))["logs"]
            assert (log["name"], log["size"]) == ("jobmanager.log", 12)
            for path in ("/jobmanager/log", "/v1/jobmanager/logs/jobmanager.log"):
                answer = await rest.http.get(path)
                assert answer.text == "all is well\n"
                assert answer.headers["content-type"].startswith("text/plain")
            assert (await rest.http.get("/jobmanager/logs/jobmanager.pid")).status_code == 404

    do(story())


def test_no_leader(do: Do, script: TaskScript, tmp_path: Path) -> None:
    """503 at once; and the job is there again, with a new leader, as it was."""

    async def story() -> None:
        script.hold("lines")
        async with rest_cluster(tmp_path, script=script) as rest:
            await rest.submit(graph("lines", "held"))
            await script.until_running("lines")
            rest.cluster.revoke_leadership(DISPATCHER)
            while (answer := await rest.http.get("/jobs/overview")).status_code == 200:
                pass
            assert answer.status_code == 503
            assert "leader election" in answer.json()["errors"][0]
            assert (await rest.http.get(f"/jobs/{derived_id('held')}/execution-result?wait=5s")).status_code == 503
            assert (await rest.http.get("/config")).status_code == 200
            rest.cluster.grant_leadership(DISPATCHER)
            while (answer := await rest.http.get("/jobs/overview")).status_code == 503:
                pass
            (line,) = answer.json()["jobs"]
            assert line["jid"] == derived_id("held")
            script.release("lines")
            assert (await rest.finish(line["jid"]))["application-status"] == "SUCCEEDED"

    do(story())


def test_failures_that_came_with_another_are_shown_with_it(do: Do, script: TaskScript, tmp_path: Path) -> None:
    """Two subtasks fail while one restart waits."""

    async def story() -> None:
        script.fail("lines", times=2)
        options = {"restart-strategy.type": "exponential-delay"}
        async with rest_cluster(tmp_path, script=script, options=options) as rest:
            job = graph("lines*2", "fails together")
            await rest.submit(job)
            assert (await rest.finish(job.job_id))["application-status"] == "SUCCEEDED"
            assert (await rest.get(f"/jobs/{job.job_id}"))["restarts"] == 1
            (entry,) = (await rest.get(f"/jobs/{job.job_id}/exceptions"))["exceptionHistory"]["entries"]
            (other,) = entry["concurrentExceptions"]
            names = sorted(each["taskName"] for each in (entry, other))
            assert names == ["lines (1/2) - execution #0", "lines (2/2) - execution #0"]
            assert other["failureLabels"] == {"type": "USER"}

    do(story())


def test_failures_are_told(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        script.fail("lines")
        async with rest_cluster(tmp_path, script=script) as rest:
            job = graph("lines", "fails")
            await rest.submit(job)
            result = await rest.finish(job.job_id)
            assert result["application-status"] == "FAILED"
            assert result["failure-cause"]["stack-trace"] == "lines: as the script says"
            history = (await rest.get(f"/jobs/{job.job_id}/exceptions"))["exceptionHistory"]
            (entry,) = history["entries"]
            assert entry["taskName"] == "lines (1/1) - execution #0"
            assert "as the script says" in entry["stacktrace"]
            assert (entry["failureLabels"], entry["concurrentExceptions"]) == ({"type": "USER"}, [])
            only = f"/jobs/{job.job_id}/exceptions?failureLabelFilter="
            assert (await rest.get(f"{only}type:USER"))["exceptionHistory"] == history
            for other in ("type:SPARK", "type:USER,of:mine"):
                assert (await rest.get(only + other))["exceptionHistory"] == {"entries": [], "truncated": False}
            short = (await rest.get(f"/jobs/{job.job_id}/exceptions?maxExceptions=0"))["exceptionHistory"]
            assert short == {"entries": [], "truncated": True}

    do(story())
