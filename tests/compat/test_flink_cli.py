"""The real `flink` command line against a firesteel cluster."""

import asyncio
import os
from pathlib import Path

import pytest

from firesteel.model.states import JobStatus
from firesteel.testing.backend import TaskScript
from tests.compat.conftest import FLINK_JARS
from tests.rest.cluster import RestCluster, graph, rest_cluster

OPENED = ("lang", "net", "io", "nio", "util", "text", "lang.reflect", "util.concurrent", "util.concurrent.atomic")
HELD, DONE = graph("lines*2 => counts", "held"), graph("other", "done")
LIMIT_S = 300.0


async def flink(rest: RestCluster, tmp_path: Path, *arguments: str, token: str = "") -> tuple[int, str]:
    """Exit code, and all that was printed."""
    (tmp_path / "conf").mkdir(exist_ok=True)
    (tmp_path / "conf" / "config.yaml").write_text(
        "client.timeout: 60 s\nrest.retry.max-attempts: 2\nrest.retry.delay: 100 ms\n"
    )
    opened = [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in OPENED]
    command = ("java", *opened, "-cp", f"{FLINK_JARS}/*", "org.apache.flink.client.cli.CliFrontend")
    master = rest.server.address.removeprefix("http://")
    headers = {"FLINK_REST_CLIENT_HEADERS": f"Authorization:Bearer {token}"} if token else {}
    process = await asyncio.create_subprocess_exec(
        *command,
        arguments[0],
        *("-m", master),
        *arguments[1:],
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "FLINK_CONF_DIR": str(tmp_path / "conf"), **headers},
    )
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


@pytest.mark.timeout(600)
def test_the_command_line_of_flink(tmp_path: Path) -> None:
    users = tmp_path / "users.yaml"
    users.write_text(
        "users: [{name: olga, roles: [submit, operate], token: o-token}, {name: vera, roles: [view], token: v-token}]"
    )

    async def story() -> None:
        script = TaskScript()
        script.hold("lines")
        bearer = {"Authorization": "Bearer o-token"}
        async with rest_cluster(
            tmp_path, script=script, options={"rest.users-file": str(users)}, headers=bearer, limit_s=LIMIT_S
        ) as rest:

            async def olga(*arguments: str) -> tuple[int, str]:
                return await flink(rest, tmp_path, *arguments, token="o-token")

            await rest.submit(DONE)
            await rest.finish(DONE.job_id)
            await rest.submit(HELD)
            await script.until_running("lines", 2)

            code, out = await olga("list", "-a")
            assert code == 0, out
            assert f"{HELD.job_id} : held (RUNNING)" in out
            assert f"{DONE.job_id} : done (FINISHED)" in out

            code, out = await flink(rest, tmp_path, "list")
            assert code != 0
            assert "This cluster asks who you are" in out
            code, out = await flink(rest, tmp_path, "cancel", HELD.job_id, token="v-token")
            assert code != 0
            assert "vera may not end or save this job" in out

            for arguments in (
                ("savepoint", HELD.job_id, f"file://{tmp_path}/sp"),
                ("stop", "-p", f"file://{tmp_path}/sp", HELD.job_id),
                ("checkpoint", HELD.job_id),
            ):
                code, out = await olga(*arguments)
                assert code != 0, out
                assert f"Job {HELD.job_id} (held) is a batch job: it has no checkpoints" in out, out
            code, out = await olga("savepoint", "-d", "file:///nowhere")
            assert code != 0
            assert "There is no savepoint of firesteel at file:///nowhere" in out

            code, out = await olga("cancel", "0" * 32)
            assert code != 0
            assert "Job could not be found" in out
            code, out = await olga("cancel", DONE.job_id)
            assert code != 0
            assert "has reached the terminal state FINISHED" in out
            code, out = await olga("cancel", HELD.job_id)
            assert code == 0, out
            assert f"Cancelled job {HELD.job_id}" in out
            assert (await rest.cluster.client.request_job_result(HELD.job_id)).status is JobStatus.CANCELED

    asyncio.run(story())
