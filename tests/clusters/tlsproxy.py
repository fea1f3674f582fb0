"""A proxy of the tests' own that ends TLS in front of a Connect server and looks at tokens: nginx, as a user sets it up."""

import contextlib
import socket
import subprocess
import time
from pathlib import Path

import trustme

from tools.nginx import server
from tools.standalone import free_port

TOKEN = "only for the proxy's ears"
START_LIMIT_S = 60.0
ALLOWED = ("client_max_body_size 0;", "client_body_timeout 1h;", "grpc_read_timeout 1h;", "grpc_send_timeout 1h;")
"""What `docs/spark-clusters.md` asks for."""
_SCRATCH = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


class TlsProxy:
    """Starts in the constructor, in front of `upstream`, a port of this host; `authorities` is who has signed its certificate."""

    def __init__(
        self,
        directory: Path,
        upstream: int,
        *,
        allowed: tuple[str, ...] = ALLOWED,
        token: str = TOKEN,
        port: int = 0,
        certificate: Path | None = None,
    ) -> None:
        """At `port`, with the `certificate` and its key of a proxy before it, or at any and with its own."""
        program = server()
        assert program is not None, "looked for before"
        directory.mkdir(parents=True)
        self.authorities, self.log = directory / "authorities.pem", directory / "error.log"
        if certificate is None:
            authority, certificate = trustme.CA(), directory / "certificate.pem"
            authority.cert_pem.write_to_path(str(self.authorities))
            authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(certificate))
        self.port = port or free_port()
        (directory / "configuration").write_text(f"""
            daemon off;
            pid {directory}/pid;
            events {{ worker_connections 512; }}
            http {{
                access_log off;
                {"".join(f"{each}_temp_path {directory}/{each};" for each in _SCRATCH)}
                server {{
                    listen 127.0.0.1:{self.port} ssl http2;
                    ssl_certificate {certificate};
                    ssl_certificate_key {certificate};
                    {"".join(allowed)}
                    location / {{
                        if ($http_authorization != "Bearer {token}") {{ return 401; }}
                        grpc_pass grpc://127.0.0.1:{upstream};
                    }}
                }}
            }}
        """)
        command: list[str | Path] = [program, "-e", self.log, "-p", directory, "-c", directory / "configuration"]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        self._wait()

    @property
    def address(self) -> str:
        return f"sc://127.0.0.1:{self.port}"

    def close(self) -> None:
        """Not by SIGKILL: what nginx has started would go on listening."""
        self._process.terminate()
        self._process.wait()

    def _wait(self) -> None:
        until_s = time.monotonic() + START_LIMIT_S
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            assert self._process.poll() is None, self.log.read_text()
            assert time.monotonic() < until_s, self.log.read_text()
            time.sleep(0.02)
