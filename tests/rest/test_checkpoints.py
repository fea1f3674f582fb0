"""Checkpoints of a stream, as Flink's dashboard and command line read them."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from firesteel.assembly.client import MasterClient
from firesteel.cli.exits import BAD_USAGE, JOB_FAILED, CommandError
from firesteel.cli.following.follow import result_lines
from firesteel.cli.jobs.manage import view_lines
from firesteel.cli.main import cli
from firesteel.client.http import HttpClusterClient
from firesteel.core.checkpoint.requests import TriggerCheckpoint, TriggerSavepoint
from firesteel.core.requests import Request
from firesteel.model.checkpoints import CheckpointRetention
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import JobType
from firesteel.model.options import Configuration
from firesteel.model.states import JobStatus
from firesteel.model.views import JobView
from firesteel.rest.errors import RestError
from firesteel.rest.handlers import checkpoints
from firesteel.rest.handlers.checkpoints import NEVER_MS, NOT_EXTERNAL
from firesteel.rest.server import serve_rest
from firesteel.runtime.client import CheckpointFailed, SavepointFailed, UnknownJob
from firesteel.runtime.endpoint import EndpointStopped
from firesteel.runtime.jobmaster import JobMasterEndpoint, job_master_settings
from firesteel.testing.backend import TaskScript
from tests.compat import flinkschema
from tests.rest.cluster import RestCluster, graph, rest_cluster
from tests.rest.conftest import Do

STREAM = graph("clicks -> counts", "stream", job_type=JobType.STREAMING)
JOB = f"/v1/jobs/{STREAM.job_id}"
RETENTION = "execution.checkpointing.externalized-checkpoint-retention"
PAUSE_S = 0.01
"""Between two looks."""


async def running(rest: RestCluster) -> None:
    """Return when the stream's queries run, and its master knows."""
    await rest.submit(STREAM)
    await rest.script.until_running("clicks")
    while (await rest.get(JOB))["vertices"][0]["status"] != "RUNNING":
        await asyncio.sleep(PAUSE_S)


async def asked(rest: RestCluster) -> dict[str, Any]:
    """The outcome of a checkpoint that is asked for."""
    begun = await rest.http.post(f"{JOB}/checkpoints", json={"checkpointType": "CONFIGURED", "triggerId": None})
    assert begun.status_code == 202, begun.text
    while True:
        answer = await rest.get(f"{JOB}/checkpoints/{begun.json()['request-id']}")
        if answer["status"]["id"] == "COMPLETED":
            return dict(answer["operation"])
        await asyncio.sleep(PAUSE_S)


async def described(rest: RestCluster, path: str, name: str) -> Any:
    """An answer, which is what Flink's own document says of `name`."""
    answer, document = await rest.get(f"{JOB}/checkpoints{path}"), flinkschema.load()
    operation = document["paths"][f"/jobs/{{jobid}}/checkpoints{name}"]["get"]
    flinkschema.check(document, operation, 200, answer)
    return answer


def test_checkpoints_are_told_as_flink_tells_them(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        script.hold("clicks")
        tolerating = {"execution.checkpointing.tolerable-failed-checkpoints": "3"}
        async with rest_cluster(tmp_path, script=script, options=tolerating) as rest:
            await running(rest)
            empty = await described(rest, "", "")
            assert (empty["counts"]["total"], empty["history"], empty["latest"]["completed"]) == (0, [], None)
            assert await asked(rest) == {"checkpointId": 1}
            script.checkpoint_error = "the disk is away"
            cause = (await asked(rest))["failureCause"]
            assert "checkpoint 2 failed: the disk is away" in cause["stack-trace"]
            script.checkpoint_error = ""
            async with HttpClusterClient([rest.server.address]) as client:
                assert await client.take_checkpoint(STREAM.job_id) == 3
                script.checkpoint_error = "the disk is away: s3://me:geheim@disk"
                with pytest.raises(CheckpointFailed, match="checkpoint 4 failed"):
                    await client.take_checkpoint(STREAM.job_id)
                await client.take_savepoint(STREAM.job_id, "/savepoints")
            found = await described(rest, "", "")
            assert found["counts"] == {"restored": 0, "total": 5, "in_progress": 0, "completed": 3, "failed": 2}
            assert [(each["className"], each["id"]) for each in found["history"]] == [
                *(("completed", 5), ("failed", 4), ("completed", 3), ("failed", 2), ("completed", 1))
            ]
            assert found["summary"]["state_size"]["avg"] == 1_000
            assert found["latest"]["savepoint"]["external_path"].startswith("/savepoints/savepoint-")
            assert found["latest"]["failed"]["failure_message"] == "the disk is away: s3://me:******@disk"
            for path in ("/checkpoints", "/checkpoints/details/4", "/view"):
                answer = await rest.http.get(f"{JOB}{path}")
                assert "the disk is away: s3://me:******@disk" in answer.text, path
                assert "geheim" not in answer.text, path
            completed = found["latest"]["completed"]
            assert (completed["id"], completed["discarded"], completed["external_path"]) == (3, False, NOT_EXTERNAL)
            assert [each["discarded"] for each in found["history"] if each["id"] == 1] == [True], "one is retained"
            for number in (1, 2, 3, 5):
                details = await described(rest, f"/details/{number}", "/details/{checkpointid}")
                assert details == next(each for each in found["history"] if each["id"] == number)
            vertex = (await rest.get(JOB))["vertices"][-1]
            assert list(completed["tasks"]) == [vertex["id"]], "the sink's"
            await rest.get(f"{JOB}/checkpoints/details/99", 404)
            await rest.get(f"{JOB}/checkpoints/details/x", 400)
            await rest.get(f"{JOB}/checkpoints/details/3/subtasks/{vertex['id']}", 404)
            script.release("clicks")
            await rest.finish(STREAM.job_id)
            ended = await described(rest, "", "")
            assert ended["latest"]["completed"]["discarded"], "the directories of the queries are gone"

    do(story())


@pytest.mark.parametrize("where", ["cluster", "job"])
def test_the_state_backend_is_that_of_the_job_or_of_its_cluster(
    do: Do, script: TaskScript, tmp_path: Path, where: str
) -> None:
    rocks = {"spark.sql.streaming.stateStore.providerClass": "org.apache.spark.RocksDBStateStoreProvider"}
    stream = msgspec.structs.replace(STREAM, configuration=rocks if where == "job" else {})

    async def story() -> None:
        script.hold("clicks")
        async with rest_cluster(tmp_path, script=script, options=rocks if where == "cluster" else {}) as rest:
            await rest.submit(stream)
            assert (await described(rest, "/config", "/config"))["state_backend"] == "RocksDB"
            script.release("clicks")
            await rest.finish(stream.job_id)

    do(story())


def test_who_waits_for_a_savepoint_finds_it_at_the_master_that_leads_next(
    do: Do, script: TaskScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        script.hold("clicks")
        async with rest_cluster(tmp_path, script=script) as rest:
            await running(rest)
            async with HttpClusterClient([rest.server.address]) as client:
                look, looks = client._operation, list[str]()

                async def forgotten_once(path: str) -> str:
                    looks.append(path)
                    if len(looks) == 1:
                        raise UnknownJob("There is no savepoint operation with that triggerId.")
                    return await look(path)

                monkeypatch.setattr(client, "_operation", forgotten_once)
                location = await client.take_savepoint(STREAM.job_id, "/savepoints", savepoint_id="ab" * 16)
            assert len(script.savepoints) == 1, "it is the same one"
            script.release("clicks")
            await rest.finish(STREAM.job_id)
            gateway, config = MasterClient(rest.cluster.master, leader_wait_s=0.0), Configuration({"rest.port": "0"})
            other = serve_rest(gateway, config, work_dir=tmp_path / "other")
            async with other, HttpClusterClient([other.address]) as client:
                assert await client.take_savepoint(STREAM.job_id, savepoint_id="ab" * 16) == location
                with pytest.raises(SavepointFailed, match="has ended: it is FINISHED"):
                    await client.take_savepoint(STREAM.job_id, savepoint_id="cd" * 16)

    do(story())


def test_a_master_that_goes_before_it_answers_is_followed_by_another(
    do: Do, script: TaskScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, gone = JobMasterEndpoint.ask, list[Request[Any]]()

    async def gone_once(master: JobMasterEndpoint, request: Request[Any]) -> Any:
        if [type(each) for each in gone].count(type(request)) == 0:
            gone.append(request)
            raise EndpointStopped("it leads no more")
        return await ask(master, request)

    async def story() -> None:
        script.hold("clicks")
        async with rest_cluster(tmp_path, script=script) as rest:
            await running(rest)
            monkeypatch.setattr(JobMasterEndpoint, "ask", gone_once)
            async with HttpClusterClient([rest.server.address]) as client:
                assert await client.take_savepoint(STREAM.job_id, "/savepoints", savepoint_id="ab" * 16)
                assert await client.take_checkpoint(STREAM.job_id) == 2
            assert [type(each) for each in gone] == [TriggerSavepoint, TriggerCheckpoint]
            script.release("clicks")
            await rest.finish(STREAM.job_id)
            gateway = MasterClient(rest.cluster.master, leader_wait_s=0.0)
            assert await gateway.take_savepoint(STREAM.job_id, savepoint_id="ab" * 16), "it was made, and not told"
            with pytest.raises(SavepointFailed, match="is FINISHED: it has no queries that run"):
                await gateway.take_savepoint(STREAM.job_id, savepoint_id="cd" * 16)

    do(story())


def test_who_waits_for_a_checkpoint_takes_one_of_the_master_that_leads_next(
    do: Do, script: TaskScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        script.hold("clicks")
        async with rest_cluster(tmp_path, script=script) as rest:
            await running(rest)
            async with HttpClusterClient([rest.server.address]) as client:
                look, looks = client._checkpoint, list[str]()

                async def forgotten_once(path: str) -> int:
                    looks.append(path)
                    if len(looks) == 1:
                        raise UnknownJob("There is no checkpoint operation with that triggerId.")
                    return await look(path)

                monkeypatch.setattr(client, "_checkpoint", forgotten_once)
                assert await client.take_checkpoint(STREAM.job_id) == 1
            script.release("clicks")
            await rest.finish(STREAM.job_id)

    do(story())


def test_they_are_taken_unasked(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        script.hold("clicks")
        often = {
            "execution.checkpointing.interval": "20 ms",
            "execution.checkpointing.min-pause": "5 ms",
            "state.checkpoints.num-retained": "2",
        }
        async with rest_cluster(tmp_path, script=script, options=often) as rest:
            await running(rest)
            while (await rest.get(f"{JOB}/checkpoints"))["counts"]["completed"] < 3:
                await asyncio.sleep(PAUSE_S)
            config = await described(rest, "/config", "/config")
            assert (config["interval"], config["min_pause"], config["timeout"]) == (20, 5, 600_000)
            script.release("clicks")
            await rest.finish(STREAM.job_id)

    do(story())


def test_without_an_interval_none_is_due(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        script.hold("clicks")
        async with rest_cluster(tmp_path, script=script) as rest:
            await running(rest)
            config = await described(rest, "/config", "/config")
            assert (config["interval"], config["mode"], config["tolerable_failed_checkpoints"]) == (
                *(NEVER_MS, "exactly_once", 0),
            )
            script.release("clicks")
            await rest.finish(STREAM.job_id)

    do(story())


async def refused(rest: RestCluster, *arguments: str) -> CommandError:
    """What the command line ends with."""
    command = [*arguments, "--master", rest.server.address.removeprefix("http://")]
    done = await asyncio.to_thread(CliRunner().invoke, cli, command, standalone_mode=False)
    assert isinstance(done.exception, CommandError), done.exception
    return done.exception


@pytest.mark.parametrize("command", ["checkpoint", "savepoint", "stop", "stop --drain", "cancel -s", "state"])
def test_the_command_line_says_that_the_job_has_ended(do: Do, script: TaskScript, tmp_path: Path, command: str) -> None:
    """Which is bad usage, and no failure of the job."""

    async def story() -> None:
        async with rest_cluster(tmp_path, script=script) as rest:
            await rest.submit(STREAM)
            await rest.finish(STREAM.job_id)
            told = await refused(rest, *command.split(), STREAM.job_id)
            assert ("FINISHED" in str(told), told.code) == (True, BAD_USAGE)

    do(story())


@pytest.mark.parametrize("command", ["checkpoint", "savepoint", "stop", "cancel -s", "state"])
def test_the_command_line_says_that_the_job_is_no_stream(
    do: Do, script: TaskScript, tmp_path: Path, command: str
) -> None:
    async def story() -> None:
        script.hold("numbers")
        batch = graph("numbers -> counts", "batch")
        async with rest_cluster(tmp_path, script=script) as rest:
            await rest.submit(batch)
            assert (await refused(rest, *command.split(), batch.job_id)).code == BAD_USAGE
            script.release("numbers")
            await rest.finish(batch.job_id)

    do(story())


def test_the_command_line_says_that_a_stream_that_runs_has_failed_at_it(
    do: Do, script: TaskScript, tmp_path: Path
) -> None:
    async def story() -> None:
        script.hold("clicks")
        async with rest_cluster(tmp_path, script=script) as rest:
            await running(rest)
            script.checkpoint_error = "the disk is away"
            told = await refused(rest, "checkpoint", STREAM.job_id)
            assert ("the disk is away" in str(told), told.code) == (True, JOB_FAILED)
            assert (await refused(rest, "savepoint", "-d", "/etc")).code == BAD_USAGE
            script.release("clicks")
            await rest.finish(STREAM.job_id)

    do(story())


def test_what_stays_of_a_job_is_told_where_flink_tells_it(do: Do, tmp_path: Path) -> None:
    async def story() -> None:
        given = {"execution.checkpointing.dir": "/shared", RETENTION: "RETAIN_ON_CANCELLATION"}
        script = TaskScript()
        script.hold("clicks")
        async with rest_cluster(tmp_path, script=script, options=given) as rest:
            await running(rest)
            assert (await described(rest, "/config", "/config"))["externalization"] == {
                "enabled": True,
                "delete_on_cancellation": False,
            }
            async with HttpClusterClient([rest.server.address]) as client:
                await client.cancel_job(STREAM.job_id)
                result = await client.request_job_result(STREAM.job_id)
                view = await client.request_job(STREAM.job_id)
            assert result.retained.startswith(f"/shared/{STREAM.job_id}/chk-1-")
            completed = (await described(rest, "", ""))["latest"]["completed"]
            assert (completed["external_path"], completed["discarded"]) == (result.retained, False)
            assert await described(rest, "/details/1", "/details/{checkpointid}") == completed
            assert script.retained == {STREAM.job_id: result.retained}
            said = f"its last checkpoint stays at {result.retained}"
            assert [line for line in result_lines(result) if said in line and "--from-savepoint" in line]
            assert f"  {said}" in view_lines(view, 0)

    do(story())


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({}, ""),
        ({"cluster.results-dir": "/results/"}, "/results/checkpoints"),
        ({"cluster.results-dir": "file:///results"}, "file:///results/checkpoints"),
        ({"cluster.results-dir": "s3://bucket/results"}, ""),
        ({"cluster.results-dir": "hdfs://nn:8020/results"}, ""),
        ({"cluster.results-dir": "/results", "execution.checkpointing.dir": "/own/"}, "/own"),
    ],
)
def test_checkpoints_stay_where_all_workers_see_them(options: dict[str, str], kept: str) -> None:
    settings = job_master_settings(Configuration(options), STREAM).scheduler.checkpoints
    assert (settings.shared_dir, settings.retention) == (kept, CheckpointRetention.DELETE_ON_CANCELLATION)


@pytest.mark.parametrize(
    ("job_type", "status", "told"),
    [
        (JobType.BATCH, JobStatus.RUNNING, "404: Checkpointing is not enabled for this job (1): it is a batch job."),
        (
            JobType.STREAMING,
            JobStatus.RUNNING,
            "503: Job 1 has no master at the moment, who would tell of its checkpoints.",
        ),
        (JobType.STREAMING, JobStatus.FAILED, "404: Nothing is known any more of the checkpoints of job 1."),
    ],
)
def test_who_can_not_tell_says_why(job_type: JobType, status: JobStatus, told: str) -> None:
    async def known(job_id: JobID) -> JobView:
        return JobView(job_id=job_id, name="job", status=status, job_type=job_type, start_time_ms=0, end_time_ms=-1)

    call: Any = SimpleNamespace(job_id=JobID("1"), gateway=SimpleNamespace(request_job=known))
    with pytest.raises(RestError) as refused:
        asyncio.run(checkpoints.statistics(call))
    assert f"{refused.value.status}: {refused.value}" == told
