"""What a job reads and writes, by REST: as it is declared, committed, and kept with the job."""

from pathlib import Path

from firesteel.model.tasks import IOMetrics
from firesteel.testing.backend import TaskScript
from tests.browser.site import declaring, named
from tests.rest.cluster import rest_cluster
from tests.rest.conftest import Do


def test_places_outside_a_job(do: Do, tmp_path: Path) -> None:
    script = TaskScript(io=IOMetrics(rows_read=7, bytes_read=70, rows_written=3, bytes_written=30))
    job = declaring(
        named(
            "others ; orders -> parsed => report ; others => report", "sales", parameters={"input": "s3://u:pw@b/in"}
        ),
        "orders",
    )

    async def story() -> None:
        script.hold("report")
        async with rest_cluster(tmp_path, script=script) as rest:
            await rest.submit(job)
            await script.until_running("report")
            ids = {vertex.name: vertex.id for vertex in job.vertices}
            early = await rest.get(f"/jobs/{job.job_id}/lineage")
            assert [each["place"] for each in early["outputs"]] == [""]
            script.release("report")
            await rest.finish(job.job_id)
            told = await rest.get(f"/jobs/{job.job_id}/lineage")
            others, orders = told["inputs"]
            read = {"vertex": ids["orders"], "function": "orders", "place": "s3://u:******@b/in"}
            assert {key: orders[key] for key in read} == read
            assert (orders["columns"], others["columns"]) == ([{"name": "n", "type": "bigint"}], [])
            assert (others["function"], others["place"], others["rows"], others["bytes"]) == ("others", "", 7, 70)
            (report,) = told["outputs"]
            assert (report["vertex"], report["function"]) == (ids["report"], "report")
            assert report["place"].endswith("report/0")
            assert (report["rows"], report["bytes"]) == (3, 30)
            assert report["columns"] == [{"name": "n", "type": "bigint"}]

    do(story())
