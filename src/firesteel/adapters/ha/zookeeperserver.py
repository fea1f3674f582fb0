"""A ZooKeeper server of one's own, for trials and tests: PySpark's jars have one.

It is a single server, so it is no high availability of its own: when it is gone, who leads goes on, and nobody
takes over. It dies with this process, also when that is killed.
"""

import asyncio
import contextlib
import shutil
import socket
import sys
import tempfile
from pathlib import Path

from firesteel.adapters.spark.jvm import supervisor
from firesteel.adapters.spark.jvm.launch import SparkInstallation, find_installation
from firesteel.runtime.background import BackgroundTasks

MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
JARS = ("zookeeper-*", "slf4j-api-*", "log4j-*", "metrics-core-*", "snappy-java-*", "netty-*")
"""Jars that it needs of PySpark's: with all of them on its class path it takes twice as long to start."""

FLAGS = ("-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
"""No collector: a user may have named one for all JVMs (JAVA_TOOL_OPTIONS), and with two Java does not start."""
START_LIMIT_S, LOOK_S = 180.0, 0.05
ANSWER_LIMIT_S = 1.0
PORT_TRIES_MAX = 5
"""A free port that was found may be taken by the time the server listens there."""

LOG_CONFIGURATION = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS} %p %c{1}: %m%n
logger.early.name = org.apache.zookeeper.server.ServerCnxn
logger.early.level = off
"""
"""Warnings; but for the complaint about being asked before it is up, which it can't answer either."""


class ZooKeeperServerDied(OSError):
    """The server has ended by itself: its log says why."""


class ZooKeeperServer:
    """A server at `host` and `port` (0 takes a free one), with its data below `directory` (None: kept until the end).

    A session may last 2 to 20 times `tick_ms`. `failed` is set when the server ends by itself.
    """

    def __init__(self, host: str, port: int, directory: Path | None, *, tick_ms: int = 2_000) -> None:
        self.host, self.port = host, port
        self.failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._directory, self._tick_ms = directory, tick_ms
        self._process: asyncio.subprocess.Process | None = None
        self._tasks = BackgroundTasks()
        self._ends = contextlib.ExitStack()

    def __str__(self) -> str:
        return f"zookeeper at {self.host}:{self.port}"

    async def start(self) -> None:
        """Start it, and wait until it answers. Raises OSError, or TaskFailedError when there is no Java."""
        installation = find_installation()
        try:
            directory = await asyncio.to_thread(self._open_directory)
            ports = [self.port] if self.port else [_free_port(self.host) for _ in range(PORT_TRIES_MAX)]
            for port in ports:
                if await self._comes_up(installation, directory, port):
                    self.port = port
                    break
            else:
                raise ZooKeeperServerDied(f"the ZooKeeper server does not come up at {self.host}:{ports[-1]}")
        except BaseException:
            await self.stop()
            raise
        self._tasks.start(self._wait(), "ZooKeeper server")

    async def stop(self) -> None:
        await self._tasks.close()
        await self._kill()
        await asyncio.to_thread(self._ends.close)

    async def _comes_up(self, installation: SparkInstallation, directory: Path, port: int) -> bool:
        """Whether it serves; False when it has ended instead."""
        settings = directory / "zoo.cfg"
        await asyncio.to_thread(settings.write_text, self._settings(directory, port))
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", supervisor.__file__, "", "0"),
            *(installation.java, *FLAGS, "-cp", _class_path(installation)),
            *(f"-Dlog4j2.configurationFile={directory / 'log4j2.properties'}", MAIN_CLASS, str(settings)),
            stdin=asyncio.subprocess.PIPE,
            stdout=sys.stderr,
            process_group=0,
        )
        until_s = asyncio.get_running_loop().time() + START_LIMIT_S
        while self._process.returncode is None and asyncio.get_running_loop().time() < until_s:
            if await _serves(self.host, port):
                return True
            await asyncio.sleep(LOOK_S)
        if self._process.returncode is None:
            raise ZooKeeperServerDied(f"the ZooKeeper server does not answer within {START_LIMIT_S:g} s")
        return False

    async def _kill(self) -> None:
        """Kill the server: what it has acknowledged is on the disk."""
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            process.stdin.write(b"\n")  # says that this end was closed on purpose
            process.stdin.close()
            await process.wait()

    async def _wait(self) -> None:
        assert self._process is not None, "started"
        status = await self._process.wait()
        if not self.failed.done():
            self.failed.set_result(ZooKeeperServerDied(f"the ZooKeeper server has ended with status {status}"))

    def _open_directory(self) -> Path:
        directory = self._directory
        if directory is None:
            directory = Path(tempfile.mkdtemp(prefix="firesteel-zookeeper-"))
            self._ends.callback(shutil.rmtree, directory, ignore_errors=True)
        (directory / "data").mkdir(parents=True, exist_ok=True)
        (directory / "log4j2.properties").write_text(LOG_CONFIGURATION)
        return directory

    def _settings(self, directory: Path, port: int) -> str:
        settings = {
            "dataDir": directory / "data",
            "clientPort": port,
            "clientPortAddress": self.host,
            "tickTime": self._tick_ms,
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "autopurge.purgeInterval": 1,
        }
        return "".join(f"{key}={value}\n" for key, value in settings.items())


def _class_path(installation: SparkInstallation) -> str:
    jars = installation.home / "jars"
    return ":".join(str(jar) for pattern in JARS for jar in sorted(jars.glob(f"{pattern}.jar")))


async def _serves(host: str, port: int) -> bool:
    """Whether a server answers there."""
    with contextlib.suppress(OSError):
        async with asyncio.timeout(ANSWER_LIMIT_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(b"srvr")
                return b"Zookeeper version" in await reader.read()
            finally:
                writer.transport.abort()
    return False


def _free_port(host: str) -> int:
    """The server can't be told to take a free one."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as found:
        found.bind((host, 0))
        return int(found.getsockname()[1])
