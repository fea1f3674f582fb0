"""An OpenSSH server of the tests' own: on an ephemeral port of loopback addresses, for the user who runs the tests."""

import getpass
import os
import shlex
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from tools.openssh import server

START_LIMIT_S = 300.0
PRIVILEGE_SEPARATION = Path("/run/sshd")
"""Without this empty directory the server does not start as root; elsewhere the system makes it at boot."""


class SshServer:
    """Starts in the constructor. It lets one key in; what it runs has `environment`."""

    def __init__(
        self, directory: Path, environment: Mapping[str, str], *, hosts: list[str], refusing: list[str]
    ) -> None:
        """Hosts are addresses of 127.0.0.0/8; the refusing ones take no key."""
        program = server()
        assert program is not None, "looked for before"
        self._directory = directory
        for name in ("host", "client"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / name], check=True)
        (directory / "client.pub").rename(directory / "authorized")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        settings = [
            *(f"ListenAddress {host}:{self.port}" for host in (*hosts, *refusing)),
            f"HostKey {directory / 'host'}",
            f"PidFile {directory / 'pid'}",
            f"AuthorizedKeysFile {directory / 'authorized'}",
            "AuthenticationMethods publickey",
            "PermitRootLogin prohibit-password",
            "StrictModes no",
            "UsePAM no",
            "SetEnv " + " ".join(f"{name}={value}" for name, value in environment.items()),
            *(line for host in refusing for line in (f"Match LocalAddress {host}", "AuthorizedKeysFile none")),
        ]
        (directory / "config").write_text("\n".join(settings) + "\n")
        if os.geteuid() == 0:
            PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
        with open(directory / "log", "wb") as log:
            command = [str(program), "-D", "-e", "-f", str(directory / "config")]
            self._server = subprocess.Popen(command, stdout=log, stderr=log)
        self.pid = self._server.pid
        self._wait(hosts[0])

    @property
    def options(self) -> str:
        """For ssh, to be let in here whatever the user's own configuration says."""
        settings = {
            "User": getpass.getuser(),
            "Port": self.port,
            "IdentityFile": self._directory / "client",
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": self._directory / "known",
            "StrictHostKeyChecking": "accept-new",
            "LogLevel": "ERROR",
        }
        return shlex.join(
            ["-F", "none", *(word for name, value in settings.items() for word in ("-o", f"{name}={value}"))]
        )

    def stop(self) -> None:
        self._server.terminate()
        self._server.wait()

    def _wait(self, host: str) -> None:
        until_s = time.monotonic() + START_LIMIT_S
        while True:
            try:
                socket.create_connection((host, self.port)).close()
                return
            except OSError:
                said = (self._directory / "log").read_text()
                assert self._server.poll() is None, said
                assert time.monotonic() < until_s, said
                time.sleep(0.02)
