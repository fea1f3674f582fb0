"""A Connect server behind a proxy that ends TLS and looks at tokens; and all that can be wrong with one, at a worker's start."""

import platform
import random
import re
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme

from firesteel.adapters.blob.local import LocalBlobStore
from firesteel.adapters.spark.clusters.masters import read_master, server_address
from firesteel.adapters.spark.session.channel import open_channel
from firesteel.adapters.spark.task.servercall import AUTHORITIES
from firesteel.adapters.spark.task.sessionhand import SessionHand
from firesteel.adapters.spark.wire import SessionName
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.model.failures import FailureKind
from firesteel.model.options import Configuration
from firesteel.runtime.ports import TaskFailedError
from tests.clusters.conftest import SMALL
from tests.clusters.test_connect_server import until_it_says
from tests.clusters.tlsproxy import TOKEN, TlsProxy
from tests.clusters.work import begun, counting_job, rows_staged
from tests.integration.spark.jobs import JobMaker, Runner, function, run, settled
from tools.nginx import server as nginx
from tools.standalone import ConnectServer

pytestmark = pytest.mark.skipif(nginx() is None, reason="needs nginx: make nginx")

GIVEN = f"token={urllib.parse.quote(TOKEN)}"
MEBIBYTE = 1 << 20
PATIENCE_S = 5
LARGE = """
from firesteel.adapters.spark.sinks.files import write_parquet
import carried
from pyspark.sql import functions as F

def rows(spark, count):
    assert len(carried.TEXT) > 3 << 20
    sent = spark.createDataFrame([(number, "x" * 1_000) for number in range(count)], "id long, text string")
    got = spark.range(count).select("id", F.repeat(F.lit("y"), 4_000).alias("text")).collect()
    assert sum(len(row.text) for row in got) == 4_000 * count
    size = F.udf(lambda number: len(carried.TEXT), "long")
    return sent.withColumn("size", size("id"))

def result(rows, output):
    write_parquet(rows, output)
"""


@pytest.fixture(scope="module")
def server(scratch: Path) -> Iterator[ConnectServer]:
    server = ConnectServer(scratch / "server")
    yield server
    server.close()


@pytest.fixture(scope="module")
def proxy(scratch: Path, server: ConnectServer) -> Iterator[TlsProxy]:
    proxy = TlsProxy(scratch / "proxy", server.port)
    yield proxy
    proxy.close()


@pytest.fixture
def trusted(proxy: TlsProxy, monkeypatch: pytest.MonkeyPatch) -> str:
    """The proxy's whole address, where its authority is known."""
    monkeypatch.setenv(AUTHORITIES, str(proxy.authorities))
    return f"{proxy.address}/;use_ssl=true;{GIVEN}"


async def outcome_at(url: str, blobs: LocalBlobStore, folder: Path, job: Any) -> Any:
    backend = SparkTaskBackend(Configuration({**SMALL, "taskmanager.spark.master": url}), folder / "work", blobs)
    try:
        await backend.start()
        outcome = await run(backend, job)
        await settled(backend)
        return outcome
    finally:
        await backend.close()


def large_job(blobs: LocalBlobStore, folder: Path) -> Any:
    """One that sends and receives far more than a proxy lets through by default: 3 MiB of code, 10 MB and 40 MB of rows."""
    text = random.Random(3).randbytes(3 * MEBIBYTE).hex()[: 3 * MEBIBYTE + 1]
    parameters = {"count": 10_000, "output": str(folder / "out")}
    functions = [
        function("rows", wants_session=True, parameters=("count",)),
        function("result", "sink", ["rows"], parameters=("output",)),
    ]
    return JobMaker(blobs, folder).job(
        LARGE, functions, parameters=parameters, more_files={"carried.py": f"TEXT = {text!r}"}
    )


def test_a_job_with_large_code_and_rows_runs_through_the_proxy(
    trusted: str, blobs: LocalBlobStore, do: Runner, tmp_path: Path
) -> None:
    assert rows_staged(do(outcome_at(trusted, blobs, tmp_path, large_job(blobs, tmp_path)))) == 10_000


def test_a_proxy_that_limits_bodies_is_named_where_it_cuts_off(
    server: ConnectServer, blobs: LocalBlobStore, do: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default nginx takes 1 MiB."""
    narrow = TlsProxy(tmp_path / "proxy", server.port, allowed=())
    monkeypatch.setenv(AUTHORITIES, str(narrow.authorities))
    try:
        with pytest.raises(TaskFailedError, match=r"client_max_body_size 0") as failed:
            do(outcome_at(f"{narrow.address}/;use_ssl=true;{GIVEN}", blobs, tmp_path, large_job(blobs, tmp_path)))
    finally:
        narrow.close()
    assert failed.value.failure.kind is FailureKind.NON_RECOVERABLE
    assert TOKEN not in str(failed.value.failure)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("use_ssl=true;token=of-nobody", "does not take the token of this worker: correct ;token=TOKEN in"),
        ("use_ssl=true", "asks for a token, and this worker has none: add ;token=TOKEN to"),
        (f"use_ssl=false;{GIVEN}", "speaks TLS, and this worker does not: add ;use_ssl=true to"),
    ],
)
def test_a_worker_that_the_proxy_does_not_let_in_is_told_at_its_start(
    trusted: str, proxy: TlsProxy, given: str, says: str, blobs: LocalBlobStore, do: Runner, tmp_path: Path
) -> None:
    said = do(refusal(f"{proxy.address}/;{given}", blobs, tmp_path))
    assert said.startswith(f"{proxy.address} can't be used from {platform.node()}: it {says} taskmanager.spark.master")
    assert TOKEN not in said
    assert "of-nobody" not in said


def test_a_certificate_of_an_authority_that_is_not_known_is_told_at_the_start(
    trusted: str,
    proxy: TlsProxy,
    blobs: LocalBlobStore,
    do: Runner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    others = tmp_path / "others.pem"
    trustme.CA().cert_pem.write_to_path(str(others))
    monkeypatch.setenv(AUTHORITIES, str(others))
    said = do(refusal(trusted, blobs, tmp_path))
    assert said.startswith(
        f"{proxy.address} can't be used from {platform.node()}: it has a certificate of an authority"
    )
    assert f"not among those in {others} (unable to get local issuer certificate): set {AUTHORITIES} to" in said
    assert TOKEN not in said


def test_tls_to_the_server_itself_is_told_at_the_start(
    trusted: str, server: ConnectServer, blobs: LocalBlobStore, do: Runner, tmp_path: Path
) -> None:
    said = do(refusal(f"{server.url}/;use_ssl=true;{GIVEN}", blobs, tmp_path))
    assert said.startswith(f"{server.url} can't be used from {platform.node()}: it does not speak TLS")
    assert TOKEN not in said


async def refusal(url: str, blobs: LocalBlobStore, folder: Path) -> str:
    """What a worker is told at its start, before it holds a session there, which could not be closed."""
    options = {**SMALL, "taskmanager.spark.master": url}
    backend = SparkTaskBackend(Configuration(options), folder / "work", blobs)
    try:
        with pytest.raises(TaskFailedError) as refused:
            await backend.start()
    finally:
        await backend.close()
    assert "closing" not in (folder / "work" / "logs" / "sessionguard.log").read_text(), "no session was held"
    assert refused.value.failure.kind is FailureKind.NON_RECOVERABLE
    return refused.value.failure.message


def test_a_query_outlasts_a_proxy_with_little_patience(
    server: ConnectServer, blobs: LocalBlobStore, do: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark tells every two seconds how far a query is: a proxy sees no silence, though tasks take longer than it would wait. And a
    connection that it closes after 20 calls is made anew."""
    impatient = TlsProxy(
        tmp_path / "proxy", server.port, allowed=(f"grpc_read_timeout {PATIENCE_S}s;", "keepalive_requests 20;")
    )
    monkeypatch.setenv(AUTHORITIES, str(impatient.authorities))
    try:
        url = f"{impatient.address}/;use_ssl=true;user_id=patient;{GIVEN}"
        job = counting_job(JobMaker(blobs, tmp_path), tmp_path, tasks=2, seconds=3.0 * PATIENCE_S)
        assert rows_staged(do(outcome_at(url, blobs, tmp_path, job))) == 2
    finally:
        impatient.close()


def test_a_token_that_is_changed_at_the_proxy_is_told_by_the_next_attempt(
    server: ConnectServer, blobs: LocalBlobStore, do: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxies = [TlsProxy(tmp_path / "proxy", server.port)]
    monkeypatch.setenv(AUTHORITIES, str(proxies[0].authorities))
    url, port = f"{proxies[0].address}/;use_ssl=true;user_id=late;{GIVEN}", proxies[0].port

    def change(token: str) -> None:
        proxies[-1].close()
        certificate = tmp_path / "proxy" / "certificate.pem"
        proxies.append(
            TlsProxy(tmp_path / f"proxy-{len(proxies)}", server.port, token=token, port=port, certificate=certificate)
        )

    async def story() -> None:
        backend = SparkTaskBackend(Configuration({**SMALL, "taskmanager.spark.master": url}), tmp_path / "work", blobs)
        try:
            await backend.start()
            change("another")
            with pytest.raises(
                TaskFailedError, match=r"does not take this worker's token \(HTTP status 401\)"
            ) as failed:
                await run(backend, counting_job(JobMaker(blobs, tmp_path), tmp_path))
            assert failed.value.failure.kind is FailureKind.ENVIRONMENT
            change(TOKEN)  # else it can't close what it holds
            await settled(backend)
        finally:
            await backend.close()

    try:
        do(story())
    finally:
        proxies[-1].close()


def worker_process(url: str, folder: Path, tasks: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.clusters.workerprocess", url, str(folder), f"{tasks}"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def test_nothing_of_a_killed_worker_runs_on_behind_the_proxy(trusted: str, do: Runner, tmp_path: Path) -> None:
    worker = worker_process(f"{trusted};user_id=killed", tmp_path, 3_000)
    do(begun(tmp_path))
    worker.kill()
    worker.communicate()
    log = tmp_path / "work" / "logs" / "sessionguard.log"
    do(until_it_says(log, "of killed is closed"))
    assert "the worker is gone: closing 1 sessions" in log.read_text()
    assert TOKEN not in log.read_text()
    found = re.search(r"session (\S+) of killed is closed", log.read_text())
    assert found is not None
    endpoint, session = server_address(read_master(trusted)), SessionName("killed", found[1])
    with open_channel(endpoint) as channel:
        hand = SessionHand(channel, endpoint)
        assert not hand.status(session).operation_statuses
        with pytest.raises(grpc.RpcError, match="SESSION_CLOSED"):
            hand.setting(session, "spark.app.name")
