"""A worker: a TaskExecutor and the backend that runs its attempts."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from firesteel.adapters.blob.local import BlobSource
from firesteel.adapters.inspection.desk import WorkerDesk
from firesteel.core.taskexecutor.taskexecutor import TaskExecutorCore
from firesteel.model import options
from firesteel.model.ids import ResourceID
from firesteel.model.options import Configuration, ConfigurationError
from firesteel.model.resources import UNTOLD_STORAGE, ResultsStorage
from firesteel.model.versions import pyspark_refusal
from firesteel.pipeline.graph import current_environment
from firesteel.runtime.metrics import MetricRegistry
from firesteel.runtime.ports import Inheritance, TaskBackend
from firesteel.runtime.services import Clock, LeaderRetrieval, Rpc
from firesteel.runtime.taskexecutor import TaskExecutorEndpoint, task_executor_settings

BackendFactory = Callable[[Configuration, Path, BlobSource], TaskBackend]
"""Makes a worker's backend, which writes below the given directory."""

logger = logging.getLogger(__name__)


class Worker:
    """One worker. It tells its masters what `registry` measures, and its backend. `on_broken` is told when its TaskExecutor has failed; then it is to be ended."""

    def __init__(
        self,
        resource_id: ResourceID,
        config: Configuration,
        *,
        rpc: Rpc,
        clock: Clock,
        leaders: LeaderRetrieval,
        backend: TaskBackend,
        desk: WorkerDesk,
        inheritance: Inheritance | None = None,
        results: ResultsStorage = UNTOLD_STORAGE,
        registry: MetricRegistry | None = None,
        on_broken: Callable[[Exception], None],
    ) -> None:
        self.resource_id, self.backend, self._config = resource_id, backend, config
        if registry is not None:
            registry.add(backend.figures)
        core = TaskExecutorCore(resource_id, task_executor_settings(config, results), rpc.address(resource_id))
        self.endpoint = TaskExecutorEndpoint(
            core,
            rpc,
            clock,
            leaders=leaders,
            backend=backend,
            desk=desk,
            inheritance=inheritance,
            registry=registry,
            measure_interval_ms=config.get_option(options.METRICS_UPDATE_INTERVAL),
            on_broken=on_broken,
        )

    async def start(self) -> None:
        """Offer slots, while the backend goes on warming up. Raises what its start raises; then nothing is left."""
        try:
            await self.backend.start()
        except BaseException:
            await self.backend.close()
            raise
        self.endpoint.start()

    async def end(self, goodbye: str = "") -> None:
        """Stop, with a goodbye to the masters unless it is empty, and end what runs here.

        Its attempts end with it; those that do not within the limit do when their backend has gone.
        """
        async with limited(self._config, self.resource_id):
            await (self.endpoint.shut_down(goodbye) if goodbye else self.endpoint.stop())
        await self.backend.close()
        await self.endpoint.stop()


@contextlib.asynccontextmanager
async def limited(config: Configuration, what: str) -> AsyncIterator[None]:
    """A part of a shutdown that is left where it is when it takes too long."""
    limit_ms = config.get_option(options.SHUTDOWN_TIMEOUT)
    try:
        async with asyncio.timeout(limit_ms / 1000):
            yield
    except TimeoutError:
        logger.warning("stopping %s takes more than %d ms: ending what is left", what, limit_ms)


def spark_backend(
    config: Configuration,
    work_dir: Path,
    blobs: BlobSource,
    *,
    ephemeral: Path | None = None,
    has_peers: bool = False,
) -> TaskBackend:
    """A real Spark. `ephemeral` is deleted also when this process is killed. With peers it is tried with the storage of
    results before it is started. Raises ConfigurationError for another version."""
    if refusal := pyspark_refusal(current_environment().pyspark):
        raise ConfigurationError(refusal)
    from firesteel.adapters.spark.worker.backend import SparkTaskBackend

    return SparkTaskBackend(config, work_dir, blobs, ephemeral=ephemeral, has_peers=has_peers)
