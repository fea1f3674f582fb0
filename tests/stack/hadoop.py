"""Hadoop's own servers beside the tests, from its minicluster's jar: each a process, on ports of its own."""

import contextlib
import getpass
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import httpx

from firesteel.adapters.spark.jvm.launch import find_installation
from firesteel.adapters.storage.webhdfs import WebHdfs, web_hdfs
from tests.durable.zookeeper import DIES_WITH_PARENT
from tools import hadoop

LIMIT_S = 120.0
NAMENODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATANODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
ADMIN = "org.apache.hadoop.hdfs.tools.DFSAdmin"
YARN = "org.apache.hadoop.yarn.server"
SCHEDULER = f"{YARN}.resourcemanager.scheduler.capacity"
HOST = "127.0.0.1"


class Servers:
    """Processes with one configuration, in a directory. Those that were started are there until `stop`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def configuration(self) -> Path:
        """What HADOOP_CONF_DIR is to name."""
        return self.directory / "conf"

    def configure(self, name: str, properties: Mapping[str, str]) -> None:
        lines = (
            f"<property><name>{key}</name><value>{escape(text)}</value></property>" for key, text in properties.items()
        )
        self.configuration.mkdir(parents=True, exist_ok=True)
        (self.configuration / f"{name}.xml").write_text(f"<configuration>{''.join(lines)}</configuration>")

    def run(self, main: str, *arguments: str) -> int:
        """The exit code of what comes to an end."""
        code = self.start(main, *arguments).wait(LIMIT_S)
        del self._processes[main]
        return code

    def start(self, main: str, *arguments: str) -> "subprocess.Popen[bytes]":
        installation = find_installation()
        jars = f"{self.configuration}:{hadoop.home()}/*:{hadoop.cryptography()}/*:{installation.home}/jars/*"
        java = (installation.java, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", jars)
        with open(self.directory / f"{main.rpartition('.')[2]}.log", "ab") as output:
            process = subprocess.Popen([*DIES_WITH_PARENT, *java, main, *arguments], stdout=output, stderr=output)
        self._processes[main] = process
        return process

    def stop(self, *mains: str) -> None:
        for main in mains or [*reversed(self._processes)]:
            process = self._processes.pop(main)
            process.send_signal(signal.SIGTERM)
            process.wait(LIMIT_S)

    def kill(self, main: str) -> None:
        process = self._processes.pop(main)
        process.kill()
        process.wait(LIMIT_S)

    def pid(self, main: str) -> int:
        return self._processes[main].pid

    def log(self) -> str:
        return "".join(path.read_text() for path in self.directory.glob("*.log"))

    def wait_until(self, holds: Callable[[], bool]) -> None:
        until_s = time.monotonic() + LIMIT_S
        while True:
            for process in self._processes.values():
                assert process.poll() is None, self.log()
            with contextlib.suppress(OSError):
                if holds():
                    return
            assert time.monotonic() < until_s, self.log()
            time.sleep(0.1)


class Hdfs:
    """A NameNode and a DataNode. Who starts it is its superuser."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self.servers = Servers(directory)
        rpc, http, data, data_http, data_rpc = free_ports(5)
        self.authority, self.address = f"{HOST}:{rpc}", f"{HOST}:{http}"
        properties = {
            "fs.defaultFS": f"hdfs://{self.authority}",
            "hadoop.tmp.dir": str(directory / "data"),
            "dfs.replication": "1",
            "dfs.namenode.rpc-address": self.authority,
            "dfs.namenode.http-address": self.address,
            "dfs.namenode.safemode.extension": "0",
            "dfs.datanode.address": f"{HOST}:{data}",
            "dfs.datanode.http.address": f"{HOST}:{data_http}",
            "dfs.datanode.ipc.address": f"{HOST}:{data_rpc}",
            "dfs.datanode.hostname": HOST,
            "dfs.heartbeat.interval": "1",
        }
        self.servers.configure("core-site", properties)
        self.servers.configure("hdfs-site", properties)

    def start(self) -> None:
        assert self.servers.run(NAMENODE, "-format", "-nonInteractive") == 0, self.servers.log()
        self.servers.start(NAMENODE)
        self.servers.start(DATANODE)
        self.servers.wait_until(self._writes)

    def kill_namenode(self) -> None:
        self.servers.kill(NAMENODE)

    def set_safe_mode(self, what: str) -> None:
        """`enter` or `leave`."""
        admin = self.servers.run(ADMIN, "-safemode", what)
        assert admin == 0, self.servers.log()

    def start_namenode(self) -> None:
        self.servers.start(NAMENODE)

    def signal_namenode(self, number: signal.Signals) -> None:
        os.kill(self.servers.pid(NAMENODE), number)

    def wait(self) -> None:
        self.servers.wait_until(self._writes)

    def client(self, user: str = "") -> WebHdfs:
        return web_hdfs(self.authority, (f"http://{self.address}",), user or getpass.getuser())

    def uri(self, path: str) -> str:
        return f"hdfs://{self.authority}{path}"

    def _writes(self) -> bool:
        self.client().write("/probe", b"")
        return True


class Yarn:
    """A ResourceManager and a NodeManager, with the queues `default` and `tight`, which has room for one driver's part."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self.servers = Servers(directory)
        client, scheduler, tracker, admin, web, node, node_web, localizer = (f"{HOST}:{port}" for port in free_ports(8))
        self.address, self._web = client, f"http://{web}/ws/v1/cluster"
        self.servers.configure("core-site", {"fs.defaultFS": "file:///", "hadoop.tmp.dir": str(directory / "data")})
        self.servers.configure(
            "yarn-site",
            {
                "yarn.resourcemanager.hostname": HOST,
                "yarn.resourcemanager.address": client,
                "yarn.resourcemanager.scheduler.address": scheduler,
                "yarn.resourcemanager.resource-tracker.address": tracker,
                "yarn.resourcemanager.admin.address": admin,
                "yarn.resourcemanager.webapp.address": web,
                "yarn.resourcemanager.scheduler.class": f"{SCHEDULER}.CapacityScheduler",
                "yarn.scheduler.minimum-allocation-mb": "256",
                "yarn.nodemanager.hostname": HOST,
                "yarn.nodemanager.address": node,
                "yarn.nodemanager.webapp.address": node_web,
                "yarn.nodemanager.localizer.address": localizer,
                "yarn.nodemanager.resource.memory-mb": "8192",
                "yarn.nodemanager.resource.cpu-vcores": "16",
                "yarn.nodemanager.vmem-check-enabled": "false",
                "yarn.nodemanager.disk-health-checker.enable": "false",
                "yarn.nodemanager.local-dirs": str(directory / "local"),
                "yarn.nodemanager.log-dirs": str(directory / "logs"),
                "yarn.nodemanager.delete.debug-delay-sec": "0",
            },
        )
        queues = "yarn.scheduler.capacity"
        self.servers.configure(
            "capacity-scheduler",
            {
                f"{queues}.root.queues": "default,tight",
                f"{queues}.root.default.capacity": "70",
                f"{queues}.root.default.maximum-am-resource-percent": "0.9",
                f"{queues}.root.tight.capacity": "30",
                f"{queues}.root.tight.maximum-capacity": "30",
                f"{queues}.root.tight.maximum-am-resource-percent": "0.5",
            },
        )

    def start(self) -> None:
        self.servers.start(f"{YARN}.resourcemanager.ResourceManager")
        self.servers.start(f"{YARN}.nodemanager.NodeManager")
        self.servers.wait_until(lambda: bool(self._get("nodes?states=RUNNING")["nodes"]))

    def applications(self, *states: str) -> dict[str, str]:
        """The states of those that are in one of these, by their ids."""
        found = (self._get(f"apps?states={','.join(states)}")["apps"] or {}).get("app", [])
        return {each["id"]: each["state"] for each in found}

    def kill(self, application: str) -> None:
        httpx.put(f"{self._web}/apps/{application}/state", json={"state": "KILLED"}).raise_for_status()

    def _get(self, path: str) -> dict[str, Any]:
        """Raises OSError while nobody answers."""
        try:
            answer: dict[str, Any] = httpx.get(f"{self._web}/{path}").raise_for_status().json()
        except httpx.HTTPError as error:
            raise OSError(str(error)) from None
        return answer


@contextlib.contextmanager
def yarn(directory: Path) -> Iterator[Yarn]:
    made = Yarn(directory)
    try:
        made.start()
        yield made
    finally:
        made.servers.stop()


@contextlib.contextmanager
def hdfs(directory: Path) -> Iterator[Hdfs]:
    made = Hdfs(directory)
    try:
        made.start()
        yield made
    finally:
        made.servers.stop()


def free_ports(count: int) -> list[int]:
    """Servers have to know the ports of one another before they open them."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [int(each.getsockname()[1]) for each in sockets]
