"""A mini cluster, by default without Spark, behind a REST endpoint on a port of its own, in real time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec

from firesteel.assembly.client import MasterClient
from firesteel.minicluster import MiniCluster
from firesteel.model.ids import DataSetID, JobID, JobVertexID, derived_id
from firesteel.model.jobgraph import Artifact, JobGraph, encode_job_graph
from firesteel.model.options import Configuration
from firesteel.pipeline.graph import current_environment
from firesteel.rest.server import RestServer, serve_rest
from firesteel.testing.backend import TaskScript
from tests.core.graphs import job

LIMIT_S = 300.0


@dataclass
class RestCluster:
    cluster: MiniCluster
    server: RestServer
    http: httpx.AsyncClient
    script: TaskScript
    shut_downs: list[str]

    async def get(self, path: str, status: int = 200) -> Any:
        answer = await self.http.get(path)
        assert answer.status_code == status, (path, answer.status_code, answer.text)
        return answer.json()

    async def submit(self, graph: JobGraph, status: int = 202) -> Any:
        answer = await self.http.post("/v1/jobs", files=submission(graph))
        assert answer.status_code == status, answer.text
        return answer.json()

    async def queue(self, length: int) -> None:
        """Return when as many jobs lack slots: a job that was just submitted has not yet asked for any."""
        while (await self.get("/v1/queue"))["waiting"] != length:
            pass

    async def finish(self, job_id: str) -> Any:
        while (answer := await self.get(f"/v1/jobs/{job_id}/execution-result?wait=30 s"))["status"][
            "id"
        ] != "COMPLETED":
            pass
        return answer["job-execution-result"]


def graph(text: str, name: str, **fields: Any) -> JobGraph:
    """A graph in the language of `tests.core.graphs.job`, with ids as clients make them, as built by this Python."""
    plain = job(text, derived_id(name))
    vertex_id = {vertex.id: JobVertexID(derived_id("vertex", vertex.id)) for vertex in plain.vertices}
    dataset_id = {dataset.id: DataSetID(derived_id("dataset", dataset.id)) for dataset in plain.datasets}
    replace = msgspec.structs.replace
    return replace(
        plain,
        name=name,
        environment=replace(current_environment(), directory=""),
        vertices=tuple(replace(vertex, id=vertex_id[vertex.id]) for vertex in plain.vertices),
        datasets=tuple(
            replace(dataset, id=dataset_id[dataset.id], producer=vertex_id[dataset.producer])
            for dataset in plain.datasets
        ),
        edges=tuple(
            replace(edge, source=dataset_id[edge.source], target=vertex_id[edge.target]) for edge in plain.edges
        ),
        **fields,
    )


def artifact(content: bytes, name: str = "code.zip", kind: str = "file", **fields: Any) -> Artifact:
    import hashlib

    described = Artifact(name=name, kind=kind, sha256=hashlib.sha256(content).hexdigest(), size_bytes=len(content))
    return msgspec.structs.replace(described, **fields)


def submission(graph: JobGraph, artifacts: Mapping[str, bytes] | None = None, **request: Any) -> list[Any]:
    """The parts of a multipart request."""
    body = {"jobGraphFileName": "graph.json", "jobArtifactFileNames": list(artifacts or {}), **request}
    files = {"graph.json": encode_job_graph(graph), **(artifacts or {})}
    parts = [("request", (None, msgspec.json.encode(body), "application/json"))]
    return parts + [(f"file_{index}", (name, content)) for index, (name, content) in enumerate(files.items())]


@contextlib.asynccontextmanager
async def rest_cluster(
    tmp_path: Path,
    *,
    script: TaskScript | None = None,
    workers: int = 1,
    options: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    limit_s: float = LIMIT_S,
    with_spark: bool = False,
) -> AsyncIterator[RestCluster]:
    config = Configuration({"taskmanager.numberOfTaskSlots": "2", "rest.port": "0", **(options or {})})
    script, shut_downs = script or TaskScript(), list[str]()
    backend = None if with_spark else script.backend
    async with asyncio.timeout(limit_s), MiniCluster(config, workers=workers, backend=backend) as cluster:
        gateway = MasterClient(cluster.master, leader_wait_s=0.0)
        while True:
            with contextlib.suppress(ConnectionError):
                await gateway.request_cluster_overview()
                break
            await asyncio.sleep(0.01)
        server = serve_rest(
            gateway,
            config,
            work_dir=tmp_path / "rest",
            log_file=tmp_path / "jobmanager.log",
            shut_down=lambda: shut_downs.append("now"),
        )
        async with server, httpx.AsyncClient(base_url=server.address, headers=headers, timeout=LIMIT_S) as http:
            yield RestCluster(cluster, server, http, script, shut_downs)


def job_id_of(answer: Any) -> JobID:
    return JobID(str(answer["jobUrl"]).rpartition("/")[2])
