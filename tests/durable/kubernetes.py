"""An API server of Kubernetes beside the tests: the fake one here, a real one in `tests/stack/kubernetes`."""

import contextlib
import json
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.durable.zookeeper import DIES_WITH_PARENT

LIMIT_S = 300.0

CONFIG_FILE = "kubernetes.config.file"
ELECTION = "high-availability.kubernetes.leader-election"

_SERVES = re.compile(r"serves at 127\.0\.0\.1:(\d+)")


class ApiServer:
    """A process that may be stopped, frozen, and started again at its port with all that it had."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.directory, self.port = directory, 0
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> Sequence[str]:
        tls = map(str, (self.directory / "server.pem", self.directory / "server.key"))
        file = str(self.directory / "objects.json")
        has_tls = (self.directory / "server.key").exists()
        return (sys.executable, "-m", "tests.durable.fakekubernetes", str(self.port), file, *(tls if has_tls else ()))

    def cluster(self) -> dict[str, Any]:
        """As a kubeconfig has it."""
        return {"server": f"http://127.0.0.1:{self.port}"}

    def user(self, name: str) -> dict[str, Any]:
        """Likewise. `good` may do what a master does, `reader` may get only."""
        return {"token": name}

    def admit(self, cluster_id: str) -> None:
        """Let its users do that with the objects of that cluster."""

    def start(self) -> None:
        """From the main thread: it ends with the thread that has started it."""
        log = self.directory / "server.log"
        begin = log.stat().st_size if log.exists() else 0
        with open(log, "ab") as output:
            self._process = subprocess.Popen([*DIES_WITH_PARENT, *self.command()], stdout=output, stderr=output)
        until_s = time.monotonic() + LIMIT_S
        while not self.is_ready(log.read_text()[begin:]):
            assert self._process.poll() is None, log.read_text()
            assert time.monotonic() < until_s, log.read_text()
            time.sleep(0.02)

    def is_ready(self, said: str) -> bool:
        found = _SERVES.search(said)
        if found is not None:
            self.port = int(found[1])
        return found is not None

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(LIMIT_S)
            self._process = None

    def kubeconfig(self, user: str = "good", *, namespace: str = "firesteel", port: int = 0) -> Path:
        """A file by which it is found, or a way to it at another port."""
        cluster = self.cluster()
        if port:
            cluster["server"] = cluster["server"].replace(str(self.port), str(port))
        file = self.directory / f"{uuid.uuid4().hex}.config"
        content = {
            "clusters": [{"name": "it", "cluster": cluster}],
            "users": [{"name": user, "user": self.user(user)}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": user, "namespace": namespace}}],
            "current-context": "it",
        }
        file.write_text(json.dumps(content))
        return file

    def options(self) -> dict[str, str]:
        """Of a cluster that is led by it, alone under its id."""
        cluster_id = uuid.uuid4().hex
        self.admit(cluster_id)
        return {
            "high-availability.type": "kubernetes",
            "high-availability.cluster-id": cluster_id,
            CONFIG_FILE: str(self.kubeconfig()),
        }


@contextlib.contextmanager
def running(server: ApiServer) -> Iterator[ApiServer]:
    try:
        server.start()
        yield server
    finally:
        server.kill()
