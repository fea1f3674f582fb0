"""A small query by which Spark shows whether it is of use: Python and versions of executors elsewhere, storage."""

import contextlib
import re
import socket
import sys
from collections.abc import Iterator
from typing import Any

import grpc
import msgspec
import pyspark
from pyspark import cloudpickle
from pyspark.errors import PySparkException

from firesteel.adapters.spark import calls, internals
from firesteel.adapters.spark.session.attempt import AttemptSession
from firesteel.adapters.storage.schemes import missing_jars, missing_scheme

TAG = "firesteel-probe"
FILES = 4
_OTHER_PYTHON = re.compile(r"version:? \(?(?P<worker>3[.,] ?\d+)\)? .{0,80}?driver:? \(?(?P<driver>3[.,] ?\d+)")
_NO_PYTHON = re.compile(r'Cannot run program "(?P<program>[^"]+)"')
_GRPC = re.compile(r'^\tdetails = "(?P<details>.{1,600}?)"?$', re.MULTILINE)
MESSAGE_MAX_CHARS = 600


def probe(payload: bytes) -> bytes:
    """JSON of a ProbeCluster in, JSON of a ClusterProbed out."""
    order = msgspec.json.decode(payload, type=calls.ProbeCluster)
    session: Any = None
    try:
        session = AttemptSession(lambda: order.endpoint, order.session, TAG, {}).get()
        return msgspec.json.encode(_probe(session, order))
    except (PySparkException, grpc.RpcError) as error:
        return msgspec.json.encode(calls.ClusterProbed(error=_sentence(str(error))))
    finally:
        with contextlib.suppress(Exception):
            session.client.close()  # there may be none


def _probe(session: Any, order: calls.ProbeCluster) -> calls.ClusterProbed:
    if problem := version_problem(session.version, pyspark.__version__):  # another one may not know the settings
        return calls.ClusterProbed(error=problem)
    place = order.place
    if order.settings:
        internals.set_all(session.conf, order.settings, silent=False)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    rows = session.range(0, FILES, 1, FILES).mapInArrow(_with_host, "id bigint, host string")
    rows.write.parquet(place)
    hosts = {row["host"] for row in session.read.parquet(place).select("host").distinct().collect()}
    application = session.conf.get("spark.app.id", "")
    return calls.ClusterProbed(hosts=tuple(sorted(hosts)), application=application, files=FILES)


def version_problem(server: str, client: str) -> str:
    """Why a server of that version can't be used by a client of this one; empty when it can."""
    if server.split(".")[:2] == client.split(".")[:2]:
        return ""
    return f"it is Spark {server}, and this worker has PySpark {client}: install one version on both sides"


def _with_host(batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow

    for batch in batches:
        names = pyarrow.array([socket.gethostname()] * batch.num_rows)
        yield pyarrow.RecordBatch.from_arrays([batch.column(0), names], names=["id", "host"])


def _sentence(text: str) -> str:
    if scheme := missing_scheme(text):
        return missing_jars(scheme, "")
    mine = f"{sys.version_info.major}.{sys.version_info.minor}"
    if found := _OTHER_PYTHON.search(text):
        return f"their Python is {_plain(found['worker'])}, this worker's is {mine}: {_ADVICE}"
    if found := _NO_PYTHON.search(text):
        return f"there is no Python {found['program']} at their place: {_ADVICE}"
    if "No module named" in text:
        return f"their Python lacks something ({_last_line(text)}): {_ADVICE}"
    if found := _GRPC.search(text):
        return found["details"]
    return _last_line(text)


_ADVICE = (
    "install the same there, or name one that all hosts have by spark.pyspark.python (an existing Connect server has its own"
    " in PYSPARK_PYTHON)"
)


def _plain(version: str) -> str:
    return version.replace(",", ".").replace(" ", "")


def _last_line(text: str) -> str:
    """The cause, where the text has a trace: its last line that says what was raised."""
    body = text.split("\n\nJVM stacktrace:", maxsplit=1)[0]
    lines = [line.strip() for line in body.splitlines() if line.strip() and not line.startswith(("\t", "    at "))]
    raised = [line for line in lines if re.match(r"(Caused by: )?[\w.$]+(Error|Exception)\b", line)]
    return (raised or lines or ["nothing was said"])[-1][:MESSAGE_MAX_CHARS]
