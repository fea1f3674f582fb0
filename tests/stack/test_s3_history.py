"""Archives in a bucket: written by a cluster, listed and read by a history server that shares nothing with it but that."""

from pathlib import Path

import pytest

from firesteel.assembly.historyserver import HistoryServer
from firesteel.minicluster import MiniCluster
from firesteel.model.options import Configuration
from firesteel.rest.server import RestServer
from firesteel.testing.backend import TaskScript
from tests.rest.cluster import graph
from tests.rest.test_history import listed
from tests.stack.conftest import Do, s3_settings

ARCHIVE = "s3://firesteel/all/history"


@pytest.fixture
def options(s3: str) -> dict[str, str]:
    return {key: value for key, value in s3_settings(s3).items() if key.startswith("s3.")}


def test_jobs_are_archived_in_a_bucket(do: Do, options: dict[str, str], tmp_path: Path) -> None:
    script, jobs = TaskScript(), [graph("lines*2 => result", f"job {number}") for number in range(3)]

    async def story() -> None:
        import httpx

        script.hold("lines")
        config = Configuration({**options, "jobmanager.archive.fs.dir": ARCHIVE, "taskmanager.numberOfTaskSlots": "8"})
        async with MiniCluster(config, backend=script.backend) as cluster:
            for job in jobs:
                await cluster.client.submit_job(job, {})
            for record in await script.until_running("lines", 6):
                directory = cluster.work_dir / record.worker / "logs" / record.attempt.job_id
                directory.mkdir(parents=True, exist_ok=True)
                (directory / f"{record.attempt.region}-0.log").write_text("printed\n")
            script.release("lines")
            results = [await cluster.client.request_job_result(job.job_id) for job in jobs]
        server = HistoryServer(
            Configuration({**options, "historyserver.archive.fs.dir": ARCHIVE + "/", "historyserver.web.port": "0"})
        )
        await server.start()
        rest: RestServer = server.rest
        try:
            async with httpx.AsyncClient(base_url=rest.address, timeout=60.0) as http:
                assert {line["jid"] for line in await listed(http, 3)} == {job.job_id for job in jobs}
                for result in results:
                    told = (await http.get(f"/jobs/{result.job_id}/execution-result")).json()
                    assert told["job-execution-result"]["net-runtime"] == result.duration_ms
                    logs = (await http.get(f"/jobs/{result.job_id}/logs")).json()["logs"]
                    assert [log["size"] for log in logs] == [len("printed\n")] * 2
                    path = f"/taskmanagers/{logs[0]['taskmanager-id']}/logs/{logs[0]['name']}"
                    assert (await http.get(path)).text == "printed\n"
        finally:
            await server.stop()

    do(story())
