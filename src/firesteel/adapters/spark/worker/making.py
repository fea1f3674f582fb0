"""Makes a worker's Spark backends, each ready to be started: all that their configuration says of them."""

import math
import os
import platform
import uuid
from functools import partial
from pathlib import Path

from firesteel.adapters.spark.children.forkclient import ForkServer
from firesteel.adapters.spark.children.guard import SessionGuard
from firesteel.adapters.spark.children.keeper import SessionKeeper
from firesteel.adapters.spark.clusters.foreign import ForeignServer
from firesteel.adapters.spark.clusters.kubernetes import executor_pods
from firesteel.adapters.spark.clusters.masters import Driver, SparkMaster
from firesteel.adapters.spark.jvm import launch
from firesteel.adapters.spark.jvm.archive import MAX_HEAP_MIB, ClassDataArchive, archive_file
from firesteel.adapters.spark.jvm.generations import Generations
from firesteel.adapters.spark.jvm.pool import SparkBackend
from firesteel.adapters.spark.jvm.server import ServerSpec, SparkServer
from firesteel.adapters.spark.jvm.sizes import backend_size
from firesteel.adapters.spark.jvm.starts import machine_turns
from firesteel.adapters.spark.jvm.warmup import WarmUp
from firesteel.adapters.spark.worker.clusterprobe import refused
from firesteel.adapters.storage.s3settings import hadoop_settings, spark_settings
from firesteel.model import options
from firesteel.model.options import Configuration, ConfigurationError


class BackendMaker:
    """One for each worker. `driver_address` is where executors that are elsewhere find it."""

    def __init__(
        self,
        config: Configuration,
        work_dir: Path,
        forks: ForkServer,
        *,
        master: SparkMaster,
        driver_address: str,
        guard: SessionGuard | None,
        ephemeral: Path | None,
    ) -> None:
        """`guard`: of sessions on a Connect server of others.

        Raises TaskFailedError when nothing can be made: there is no Spark or Java here, too little memory, no place for
        events, or it is not known as whom to ask Kubernetes."""
        self._config, self._work_dir, self._forks, self._ephemeral = config, work_dir, forks, ephemeral
        self._installation = launch.find_installation()
        self._master, self._guard = master, guard
        self._spark = self._settings() if guard is None else {}
        try:
            self._pods = executor_pods(master, self._spark, os.environ, platform.node())
        except ConfigurationError as error:
            raise refused(str(error)) from None
        self._driver = None if master.is_local else driver_of(config, master, driver_address)
        self._generations, self._turns = Generations(work_dir / "logs"), machine_turns()
        self.archive = self._class_data_archive(backend_size(config).heap_mib)

    async def prepare(self) -> None:
        """See that drivers can have executors, where that can be asked before. Raises TaskFailedError, in a sentence."""
        try:
            self._spark |= await self._pods.prepare() if self._pods is not None else {}
        except ConfigurationError as error:
            raise refused(str(error)) from None

    def make(self, alone: bool) -> SparkBackend:
        """A backend, for a single attempt when it is `alone`."""
        if self._guard is not None:
            server = ForeignServer(self._master, self._work_dir / launch.PRINTED)
            return SparkBackend(server, SessionKeeper(self._forks), guard=self._guard)
        config, size = self._config, backend_size(self._config, alone=alone)
        is_shared = config.get_option(options.SPARK_ISOLATION) == "shared" and not alone
        own = None if is_shared else self._work_dir / "backends" / uuid.uuid4().hex[:8]
        directory = own or self._work_dir
        settings = launch.spark_configuration(directory, size.cores, self._spark, self._driver)
        has_ui = settings.get("spark.ui.enabled", "true").lower() == "true"
        spec = ServerSpec(
            launch.backend_command(
                self._installation, size.heap_mib, directory, settings, tells_more=has_ui or self._driver is not None
            ),
            self.archive,
            self._work_dir / "logs",
            config.get_option(options.SPARK_START_TIMEOUT) / 1000,
            self._ephemeral,
            self._generations,
            self._turns,
            self._driver,
            self._installation.version,
            has_ui,
            partial(launch.kill_command, self._installation),
            self._pods,
            config.get_option(options.SPARK_HEARTBEAT_TIMEOUT) / 1000 or math.inf,
        )
        # A backend of one job, or a spare, would be warmed at the cost of what others run beside it; on a cluster, at the
        # cost of what others run there.
        is_warmed = is_shared and self._driver is None and config.get_option(options.SPARK_WARM_UP)
        warm_up = WarmUp(self._forks, directory / "tmp") if is_warmed else None
        return SparkBackend(SparkServer(spec), SessionKeeper(self._forks), own, warm_up=warm_up)

    def _settings(self) -> dict[str, str]:
        events = self._config.get_option(options.SPARK_EVENT_LOG_DIR)
        user = {
            **spark_settings(hadoop_settings(self._config, os.environ)),
            **(launch.UI_SETTINGS if self._config.get_option(options.SPARK_UI) else {}),
            **(launch.event_log_settings(events) if events else {}),
            **self._config.spark(),
        }
        named = self._config.get_option(options.SPARK_MASTER)
        return {**user, **({"spark.master": named} if named else {})}

    def _class_data_archive(self, heap_mib: int) -> ClassDataArchive | None:
        wanted = self._config.get_option(options.SPARK_CLASS_DATA_ARCHIVE) and heap_mib <= MAX_HEAP_MIB
        if not wanted or launch.configuration_directories():
            return None
        command = launch.archive_command(self._installation)
        file = archive_file(self._installation.java, launch.base_class_path(self._installation), command)
        return ClassDataArchive(file, command)


def driver_of(config: Configuration, master: SparkMaster, address: str) -> Driver:
    """Of a worker's applications. Where users have names, pages that ask nobody for his are not for the network, unless the
    worker was told so."""
    has_users = bool(config.get_option(options.REST_USERS_FILE))
    return Driver(master, address, platform.node(), has_users and not config.get_option(options.SPARK_UI))
