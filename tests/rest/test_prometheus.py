"""What Prometheus scrapes of a master, read by Prometheus' own parser."""

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from firesteel.core.effects import DISPATCHER
from firesteel.model.metrics import FORK_SERVER_SPARES
from firesteel.testing.backend import TaskScript
from tests.rest.cluster import RestCluster, graph, rest_cluster
from tests.rest.conftest import Do

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]
OPTIONS = {
    "taskmanager.numberOfTaskSlots": "1",
    "heartbeat.interval": "100 ms",
    "metrics.fetcher.update-interval": "50 ms",
}


async def scrape(rest: RestCluster) -> Samples:
    answer = await rest.http.get("/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=")
    families = list(text_string_to_metric_families(answer.text))
    assert all(family.documentation.endswith(".") for family in families)
    assert len({family.name for family in families}) == len(families)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_a_scrape_has_the_cluster_its_workers_and_its_jobs(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        script.hold("lines")
        script.figures = [FORK_SERVER_SPARES.of(2)]
        async with rest_cluster(tmp_path, script=script, options=OPTIONS) as rest:
            (worker,) = rest.cluster.workers
            runs, waits = graph("lines", 'runs "it"'), graph("lines", "waits")
            await rest.submit(runs)
            await script.until_running("lines")
            await rest.submit(waits)
            spares = ("firesteel_taskmanager_fork_server_spares", (("tm_id", worker),))
            await rest.queue(1)
            while spares not in (found := await scrape(rest)):
                pass
            assert found[spares] == 2
            assert found["firesteel_jobmanager_leads", ()] == 1
            assert found["firesteel_jobmanager_num_registered_task_managers", ()] == 1
            assert found["firesteel_jobmanager_num_lost_task_managers_total", ()] == 0
            assert found["firesteel_jobmanager_queue_length", (("queue", "default"),)] == 1
            assert found["firesteel_jobmanager_jobs", (("status", "CREATED"),)] == 1
            wait_s = found["firesteel_jobmanager_queue_oldest_wait_seconds", (("queue", "default"),)]
            assert 0 <= wait_s < 300
            jobs = {dict(labels)["job_name"] for name, labels in found if name == "firesteel_job_num_restarts_total"}
            assert jobs == {runs.name, waits.name}
            script.release("lines")
            for job in (runs, waits):
                await rest.finish(job.job_id)
            assert not [name for name, _ in await scrape(rest) if name.startswith("firesteel_job_")], "they have ended"

    do(story())


def test_only_so_many_jobs_are_told_one_by_one_the_oldest_first(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        script.hold("lines")
        async with rest_cluster(tmp_path, script=script, options={"metrics.reporter.prom.max-jobs": "2"}) as rest:
            graphs = [graph("lines", f"job-{number}") for number in range(3)]
            for each in graphs:
                await rest.submit(each)
            found = await scrape(rest)
            names = [dict(labels)["job_name"] for name, labels in found if name == "firesteel_job_num_restarts_total"]
            assert names == ["job-0", "job-1"]
            assert sum(value for (name, _), value in found.items() if name == "firesteel_jobmanager_jobs") == 3
            script.release("lines")

    do(story())


def test_a_master_that_does_not_lead_tells_of_itself(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path, script=script) as rest:
            rest.cluster.revoke_leadership(DISPATCHER)
            while (found := await scrape(rest))["firesteel_jobmanager_leads", ()] != 0:
                pass
            assert len(found) == 1

    do(story())


def test_a_scrape_takes_a_token_where_the_rest_does(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        users = tmp_path / "users.yaml"
        users.write_text("users: [{name: prometheus, roles: [view], token: the-token}]")
        async with rest_cluster(tmp_path, script=script, options={"rest.users-file": str(users)}) as rest:
            assert (await rest.http.get("/metrics")).status_code == 401
            headers = {"Authorization": "Bearer the-token"}
            assert (await rest.http.get("/metrics", headers=headers)).status_code == 200

    do(story())
