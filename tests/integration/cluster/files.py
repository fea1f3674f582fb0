"""Pipelines written as files, built and run the way the command line does."""

import uuid
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import msgspec

from firesteel.minicluster import MiniCluster
from firesteel.model.ids import JobID
from firesteel.model.views import JobResult
from firesteel.pipeline.build import BuildFailure, BuildRequest, BuiltJob, decode_build_reply

HEADER = """import firesteel as fs
from pyspark.sql import DataFrame, SparkSession, functions as F

pipeline = fs.Pipeline("test")
"""
BUILD = "firesteel.pipeline.build:build_in_child"


class Files:
    """Builds and runs pipeline files on a cluster."""

    def __init__(self, cluster: MiniCluster, do: Callable[[Coroutine[Any, Any, Any]], Any], scratch: Path) -> None:
        self.cluster, self.do, self.scratch = cluster, do, scratch

    def write(self, body: str, name: str = "job.py") -> Path:
        """A pipeline file: the usual imports, then `body`."""
        path = self.scratch / "code" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(HEADER + body)
        return path

    async def build(self, path: Path, **request: Any) -> BuiltJob | BuildFailure:
        output = self.scratch / "artifacts"
        output.mkdir(exist_ok=True)
        asked = BuildRequest(file=str(path), job_id=JobID(uuid.uuid4().hex), output_dir=str(output), **request)
        return decode_build_reply(await self.cluster.call(BUILD, msgspec.json.encode(asked)))

    async def submit(
        self,
        path: Path,
        parameters: Mapping[str, str] | None = None,
        configuration: Mapping[str, str] | None = None,
        **request: Any,
    ) -> JobID:
        settings = dict(configuration or {})
        built = await self.build(path, parameters=dict(parameters or {}), configuration=settings, **request)
        assert isinstance(built, BuiltJob), built
        return await self.cluster.client.submit_job(built.graph, built.artifact_paths())

    async def run(
        self,
        path: Path,
        parameters: Mapping[str, str] | None = None,
        configuration: Mapping[str, str] | None = None,
        **request: Any,
    ) -> JobResult:
        job_id = await self.submit(path, parameters, configuration, **request)
        return await self.cluster.client.request_job_result(job_id)
