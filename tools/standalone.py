"""A real standalone cluster of the installed PySpark: a Master and Workers as processes, and Connect servers of others."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from firesteel.adapters.spark.jvm import launch

LIMIT_S = 300.0
WORKER_TIMEOUT_S = 5
"""`spark.worker.timeout`: of the Master and the Workers alike."""
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_CONNECT = re.compile(r"Spark Connect server started at: \S*:(\d+)")


class Standalone:
    """Files below `directory`. `prefix` is put before each command, as `ip netns exec NAME`."""

    def __init__(
        self,
        directory: Path,
        settings: Sequence[str] = (),
        *,
        host: str = "127.0.0.1",
        prefix: Sequence[str] = (),
        python_path: str = "",
        recovers: bool = True,
    ) -> None:
        """`recovers`: whether a Master that is restarted knows what was there; Spark's default is no."""
        self.directory, self.host, self.prefix = directory, host, list(prefix)
        self.settings = [
            f"spark.worker.timeout={WORKER_TIMEOUT_S}",
            *settings,
        ]
        if recovers:
            self.settings += [
                "spark.deploy.recoveryMode=FILESYSTEM",
                f"spark.deploy.recoveryDirectory={directory / 'recovery'}",
            ]
        self.url = ""
        self.master: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []
        self._python_path = python_path
        directory.mkdir(parents=True, exist_ok=True)

    def start_master(self) -> None:
        """At the port of the former one, if there was one."""
        port = self.url.rpartition(":")[2] or str(free_port(self.host) if not self.prefix else 7077)
        log = self.directory / f"master-{time.monotonic_ns()}.log"
        arguments = ("--host", self.host, "--port", port, "--webui-port", "0")
        self.master = self._java("org.apache.spark.deploy.master.Master", arguments, log)
        self.url = wait_for(log, _MASTER, self.master)

    def kill_master(self) -> None:
        assert self.master is not None, "started before"
        end(self.master)

    def start_worker(self, cores: int = 2) -> subprocess.Popen[bytes]:
        number = len(self.workers)
        log = self.directory / f"worker-{number}.log"
        options = ("--host", self.host, "--port", "0", "--webui-port", "0", "--cores", str(cores), "--memory", "2g")
        arguments = (*options, "--work-dir", str(self.directory / f"work-{number}"), self.url)
        worker = self._java("org.apache.spark.deploy.worker.Worker", arguments, log)
        self.workers.append(worker)
        wait_for(log, re.compile(r"(Successfully registered with master)"), worker)
        return worker

    def executors(self) -> list[psutil.Process]:
        """JVMs of executors, of all Workers."""
        found = []
        for worker in self.workers:
            with contextlib.suppress(psutil.Error):
                found += [each for each in psutil.Process(worker.pid).children(recursive=True) if is_executor(each)]
        return found

    def close(self) -> None:
        for process in (*self.workers, *([self.master] if self.master is not None else [])):
            end(process)
        self.workers.clear()

    def _java(self, main: str, arguments: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        installation = launch.find_installation()
        flags = ["-Xmx256m", *(f"-D{setting}" for setting in self.settings)]
        command = [*self.prefix, *launch.archive_command(installation), *flags, main, *arguments]
        environment = {
            **os.environ,
            "SPARK_HOME": str(installation.home),
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_LOCAL_IP": self.host,
            **({"PYTHONPATH": self._python_path} if self._python_path else {}),
        }
        with open(log, "wb") as file:
            return subprocess.Popen(command, stdout=file, stderr=file, env=environment, start_new_session=True)


class ConnectServer:
    """A Connect server in `local[2]`, which is not ours: it knows no class of ours, but with `classes`."""

    def __init__(
        self, directory: Path, settings: Sequence[str] = (), *, token: str = "", port: int = 0, classes: bool = False
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        installation = launch.find_installation()
        log = directory / f"connect-{time.monotonic_ns()}.log"
        chosen = [
            "spark.master=local[2]",
            "spark.app.name=of-others",
            "spark.ui.enabled=false",
            "spark.driver.host=127.0.0.1",
            "spark.driver.bindAddress=127.0.0.1",
            "spark.connect.grpc.binding.address=127.0.0.1",
            f"spark.connect.grpc.binding.port={port}",
            "spark.sql.catalogImplementation=in-memory",
            f"spark.sql.warehouse.dir={directory / 'warehouse'}",
            *settings,
        ]
        java, option, with_ours, *flags = launch.archive_command(installation)
        class_path = with_ours if classes else f"{installation.home}/jars/*"
        command = [java, option, class_path, *flags, "-Xmx700m", *(f"-D{each}" for each in chosen)]
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        environment |= {"SPARK_CONNECT_AUTHENTICATE_TOKEN": token} if token else {}
        with open(log, "wb") as file:
            self.process = subprocess.Popen(
                [*command, "org.apache.spark.sql.connect.service.SparkConnectServer"],
                stdout=file,
                stderr=file,
                env=environment,
                start_new_session=True,
            )
        self.port = int(wait_for(log, _CONNECT, self.process))
        self.url = f"sc://127.0.0.1:{self.port}"

    def close(self) -> None:
        end(self.process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill it and what it has started."""
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                child.kill()
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGKILL)
    process.wait()


def is_executor(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.name() == "java" and "CoarseGrainedExecutorBackend" in " ".join(process.cmdline())
    return False


def wait_for(log: Path, pattern: re.Pattern[str], process: subprocess.Popen[bytes]) -> str:
    """The first group of the pattern, once the log has it."""
    give_up = time.monotonic() + LIMIT_S
    while time.monotonic() < give_up:
        if found := pattern.search(log.read_text(errors="replace")):
            return found[1]
        assert process.poll() is None, log.read_text(errors="replace")[-3000:]
        time.sleep(0.05)
    raise TimeoutError(log.read_text(errors="replace")[-3000:])


def free_port(host: str = "127.0.0.1") -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def standalone(
    directory: Path, *settings: str, workers: int = 1, cores: int = 2, recovers: bool = True
) -> Iterator[Standalone]:
    """A cluster that is up."""
    cluster = Standalone(directory, settings, recovers=recovers)
    try:
        cluster.start_master()
        for _ in range(workers):
            cluster.start_worker(cores)
        yield cluster
    finally:
        cluster.close()
