"""The clients of the REST benchmark, in a process of their own: `python -m benchmarks.restload`.

Reads a Load as JSON from standard input and writes a Measured to standard output. Bare clients write HTTP to a socket
each and read the answer, as lean as Python allows; the others are firesteel's own.
"""

import asyncio
import socket
import sys
import threading
import time
import uuid
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from firesteel.client.http import HttpClusterClient
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import JobGraph, encode_job_graph

BOUNDARY = b"----------------firesteel"
WAIT_MS = 30_000
TIMEOUT_S = 120.0


class Load(msgspec.Struct, frozen=True):
    """`jobs` of `graph`, shared out among `clients` that each submit one, wait for its result, submit the next."""

    address: str
    graph: JobGraph
    clients: int
    jobs: int
    is_bare: bool
    artifacts: dict[str, str] = {}
    """Files that travel with each job, by SHA-256; of jobs that our own client submits."""


class Measured(msgspec.Struct, frozen=True):
    milliseconds: list[float]
    """Of each job, from its submission to its result."""
    seconds: float
    """Of all together."""
    cpu_seconds: float
    """That the clients took."""


class BareClient:
    """One connection that is kept."""

    def __init__(self, address: str) -> None:
        url = urlsplit(address)
        self._socket = socket.create_connection((url.hostname, url.port), timeout=TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._host = url.netloc.encode()

    def request(self, method: bytes, path: bytes, body: bytes = b"", kind: bytes = b"application/json") -> bytes:
        """The body of the answer. Raises RuntimeError unless its status is one of success."""
        head = b"%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
        self._socket.sendall(head % (method, path, self._host, kind, len(body)) + body)
        answer = self._read()
        while (end := answer.find(b"\r\n\r\n")) < 0:
            answer += self._read()
        headers = bytes(answer[:end]).lower()
        length = int(headers.partition(b"content-length:")[2].partition(b"\r\n")[0])
        while len(answer) < end + 4 + length:
            answer += self._read()
        if not headers.startswith(b"http/1.1 2"):
            raise RuntimeError(answer.decode())
        return bytes(answer[end + 4 :])

    def submit(self, graph: bytes) -> None:
        body = b"".join(
            (
                _part(b'name="request"', b'{"jobGraphFileName":"job-graph.json"}'),
                _part(b'name="file_0"; filename="job-graph.json"', graph),
                b"--%s--\r\n" % BOUNDARY,
            )
        )
        self.request(b"POST", b"/v1/jobs", body, b"multipart/form-data; boundary=" + BOUNDARY)

    def await_finished(self, job_id: bytes) -> None:
        path = b"/v1/jobs/%s/execution-result?wait=%d" % (job_id, WAIT_MS)
        while b'"IN_PROGRESS"' in (answer := self.request(b"GET", path)):
            pass
        if b'"FINISHED"' not in answer:
            raise RuntimeError(answer.decode())

    def close(self) -> None:
        self._socket.close()

    def _read(self) -> bytearray:
        data = self._socket.recv(1 << 18)
        if not data:
            raise ConnectionResetError("the master has closed the connection")
        return bytearray(data)


def _part(disposition: bytes, content: bytes) -> bytes:
    return b"--%s\r\nContent-Disposition: form-data; %s\r\n\r\n%s\r\n" % (BOUNDARY, disposition, content)


def bare(load: Load) -> list[float]:
    """Clients that are a thread and a socket each."""
    template = encode_job_graph(load.graph)
    known_id = load.graph.job_id.encode()
    values: list[float] = []

    def work() -> None:
        client = BareClient(load.address)
        for _ in range(load.jobs // load.clients):
            job_id = uuid.uuid4().hex.encode()
            graph = template.replace(known_id, job_id)
            started = time.perf_counter()
            client.submit(graph)
            client.await_finished(job_id)
            values.append((time.perf_counter() - started) * 1_000)
        client.close()

    threads = [threading.Thread(target=work) for _ in range(load.clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return values


async def own(load: Load) -> list[float]:
    """Firesteel's own client, used by several coroutines."""
    values: list[float] = []
    artifacts = {sha256: Path(path) for sha256, path in load.artifacts.items()}

    async def work(client: HttpClusterClient) -> None:
        for _ in range(load.jobs // load.clients):
            job_id = JobID(uuid.uuid4().hex)
            graph = msgspec.structs.replace(load.graph, job_id=job_id)
            started = time.perf_counter()
            await client.submit_job(graph, artifacts)
            await client.request_job_result(job_id)
            values.append((time.perf_counter() - started) * 1_000)

    async with HttpClusterClient([load.address]) as client, asyncio.TaskGroup() as group:
        for _ in range(load.clients):
            group.create_task(work(client))
    return values


def main() -> None:
    """Fails when a job did not finish: a thread that failed has measured fewer."""
    load = msgspec.json.decode(sys.stdin.buffer.read(), type=Load)
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    values = bare(load) if load.is_bare else asyncio.run(own(load))
    measured = Measured(values, time.perf_counter() - wall_s, time.process_time() - cpu_s)
    if len(values) != load.jobs // load.clients * load.clients:
        raise SystemExit("some jobs did not finish")
    sys.stdout.buffer.write(msgspec.json.encode(measured))


if __name__ == "__main__":
    main()
