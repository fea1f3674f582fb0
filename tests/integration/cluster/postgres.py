"""A PostgreSQL server of the tests' own: on an ephemeral port of the loopback, with a password, gone afterwards."""

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from tools.postgres import DRIVER, binaries

USER = "tester"
START_LIMIT_S = 300.0


class Postgres:
    """Starts in the constructor; a fresh cluster of databases in a directory that is deleted by `stop`."""

    def __init__(self) -> None:
        found = binaries()
        assert found is not None, "looked for before"
        self._binaries = found
        self.password = secrets.token_hex(12)
        # Not below pytest's own directories, which only their owner may enter: the server refuses to run as root.
        self._directory = Path(tempfile.mkdtemp(prefix="firesteel-postgres-"))
        password_file = self._directory / "password"
        password_file.write_text(self.password)
        self._owner: dict[str, Any] = {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}
        if self._owner:
            for path in (self._directory, password_file):
                shutil.chown(path, **self._owner)
        data = str(self._directory / "data")
        self._run("initdb", "-D", data, "-U", USER, "-A", "scram-sha-256", "--pwfile", str(password_file), "--no-sync")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": str(self._directory), "fsync": "off"}
        options = [text for name, value in settings.items() for text in ("-c", f"{name}={value}")]
        command = [self._program("postgres"), "-D", data, "-p", str(self.port), *options]
        with open(self._directory / "log", "wb") as log:
            self._server = subprocess.Popen(command, cwd=self._directory, stdout=log, stderr=log, **self._owner)
        self._wait()

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    def query(self, sql: str) -> list[list[str]]:
        """Rows as texts; null is empty."""
        environment = {**os.environ, "PGPASSWORD": self.password}
        command = [self._program("psql"), "-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "-d", "postgres"]
        done = subprocess.run(
            [*command, "-X", "-q", "-At", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-c", sql],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [line.split("\t") for line in done.stdout.splitlines()]

    def staging_tables(self) -> list[str]:
        sql = "select relname from pg_class where relname like '\\_firesteel\\_%' and relkind = 'r'"
        return [name for (name,) in self.query(sql) if name != "_firesteel_commits"]

    def stop(self) -> None:
        self._server.terminate()
        self._server.wait(60)
        shutil.rmtree(self._directory)

    def _program(self, name: str) -> str:
        return str(self._binaries / name)

    def _run(self, program: str, *arguments: str) -> None:
        command = [self._program(program), *arguments]
        done = subprocess.run(command, cwd=self._directory, capture_output=True, text=True, check=False, **self._owner)
        assert done.returncode == 0, done.stderr

    def _wait(self) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        command = [self._program("pg_isready"), "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(command, capture_output=True, check=False).returncode != 0:
            assert self._server.poll() is None, (self._directory / "log").read_text()
            assert time.monotonic() < deadline, "PostgreSQL does not start"
            time.sleep(0.1)


def is_missing() -> bool:
    """Whether this machine has no PostgreSQL, or no JDBC driver for it."""
    return binaries() is None or not DRIVER.exists()
