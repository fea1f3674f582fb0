"""Jobs and workers whose versions do not fit are refused, and both versions are named."""

from pathlib import Path

import msgspec
import pytest

from firesteel.adapters.blob.local import LocalBlobStore
from firesteel.assembly import worker
from firesteel.assembly.client import MasterClient
from firesteel.model.jobgraph import FunctionKind, InvalidJobGraph, JobGraph, RuntimeEnvironment
from firesteel.model.options import Configuration, ConfigurationError
from firesteel.model.states import JobStatus
from firesteel.testing.backend import TaskScript
from tests.runtime.cluster import finish, graph, mini_cluster
from tests.runtime.conftest import Do

HERE = RuntimeEnvironment(python="3.11", pyspark="4.3.0")


def built_with(python: str, pyspark: str, name: str) -> JobGraph:
    environment = RuntimeEnvironment(python=python, pyspark=pyspark)
    return msgspec.structs.replace(graph("a", name), environment=environment)


def without_code(job: JobGraph) -> JobGraph:
    (vertex,) = job.vertices
    functions = tuple(msgspec.structs.replace(each, kind=FunctionKind.NOOP) for each in vertex.functions)
    return msgspec.structs.replace(job, vertices=(msgspec.structs.replace(vertex, functions=functions),))


def test_a_job_that_was_built_with_others_is_refused_when_it_is_submitted(do: Do, script: TaskScript) -> None:
    async def story() -> None:
        async with mini_cluster(script) as cluster:
            client = MasterClient(cluster.master, environment=HERE)
            with pytest.raises(InvalidJobGraph, match=r"built with Python 3\.12, this cluster runs Python 3\.11: use"):
                await client.submit_job(built_with("3.12", "4.3.0", "python"), {})
            with pytest.raises(
                InvalidJobGraph, match=r"built with pyspark 4\.3\.1, this cluster has pyspark 4\.3\.0: use"
            ):
                await client.submit_job(built_with("3.11", "4.3.1", "pyspark"), {})
            fitting = (
                built_with("3.11", "4.3.0", "same"),
                built_with("3.11", "", "no pyspark at the client"),
                without_code(built_with("2.7", "", "nothing of the user's")),
            )
            for job in fitting:
                result = await finish(cluster, await client.submit_job(job, {}))
                assert result.status is JobStatus.FINISHED

    do(story())


@pytest.mark.parametrize(
    ("version", "words"),
    [("4.2.1", "pyspark 4.2.1 is installed here, and firesteel works with 4.3: pip"), ("", "pyspark is not installed")],
)
def test_a_spark_of_another_series_is_not_started(
    version: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = msgspec.structs.replace(HERE, pyspark=version)
    monkeypatch.setattr(worker, "current_environment", lambda: found)
    with pytest.raises(ConfigurationError, match=words):
        worker.spark_backend(Configuration(), tmp_path, LocalBlobStore(tmp_path))
