"""A server beside the tests that speaks S3's protocol."""

import contextlib
import os
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx

from tests.durable.zookeeper import DIES_WITH_PARENT

LIMIT_S = 300.0

_STARTED = re.compile(r"Running on (http://127\.0\.0\.1:\d+)")

_SIGNED = {"Authorization": "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request"}


@contextlib.contextmanager
def s3_server(directory: Path, *, knows_nobody: bool = False) -> Iterator[str]:
    """With a bucket `firesteel`; its URL. It takes any credentials, or none that there are."""
    environment = {**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": "1"} if knows_nobody else None
    log = directory / "s3.log"
    with open(log, "wb") as output:
        server = subprocess.Popen(
            [*DIES_WITH_PARENT, sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"],
            stdout=output,
            stderr=output,
            env=environment,
        )
    try:
        until_s = time.monotonic() + LIMIT_S
        while not (found := _STARTED.search(log.read_text())):
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < until_s, log.read_text()
            time.sleep(0.02)
        httpx.put(f"{found[1]}/firesteel", headers=_SIGNED, timeout=LIMIT_S, trust_env=False).raise_for_status()
        yield found[1]
    finally:
        server.terminate()
        server.wait(LIMIT_S)


def s3_options(url: str) -> dict[str, str]:
    """Of a cluster that keeps its jobs there, alone."""
    return {
        "high-availability.type": "filesystem",
        "high-availability.storageDir": f"s3://firesteel/{uuid.uuid4().hex}/of it",
        "s3.endpoint": url,
        "s3.region": "us-east-1",
        "s3.access-key": "key",
        "s3.secret-key": "secret",
    }
