"""TPC-H on a standalone cluster whose two Workers are on hosts of their own: three masters, two workers of ours, on a third."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks.report import ROOT
from benchmarks.tpch import QUERIES
from benchmarks.tpch.tables import make_tables, parameters_of
from tests.clusters.conftest import ON_EXECUTORS
from tests.integration.cluster.test_tpch import SCALE, SETTINGS, compare, written
from tests.stack.clusters.hosts import Host, hosts
from tools.standalone import ConnectServer, Standalone

LIMIT_S = 600
TOKEN = "of-the-reference"


class Firesteel:
    """`firesteel ...` on one host, with what it keeps below `folder`."""

    def __init__(self, host: Host, folder: Path) -> None:
        self._host, self._folder = host, folder
        self._environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "SPARK_LOCAL_IP": host.address}

    def __call__(self, *arguments: str) -> str:
        command = (*self._host.prefix, sys.executable, "-m", "firesteel", *arguments)
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            env=self._environment,
            cwd=self._folder,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def firesteel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Firesteel, str]]:
    """The command, and the addresses of the masters."""
    folder = tmp_path_factory.mktemp("firesteel")
    with hosts(3) as (ours, *theirs):
        clusters = [Standalone(folder / host.address, host=host.address, prefix=host.prefix) for host in theirs]
        try:
            clusters[0].start_master()
            for cluster in clusters:
                cluster.url = clusters[0].url
                cluster.start_worker()
            command = Firesteel(ours, folder)
            options = {**ON_EXECUTORS, "spark.cores.max": "2", "taskmanager.spark.master": clusters[0].url}
            options["cluster.work-dir"] = str(folder / "work")
            given = [part for key, value in options.items() for part in ("-D", f"{key}={value}")]
            said = command("cluster", "start", "--masters", "3", "--taskmanagers", "2", *given)
            masters = ",".join(dict.fromkeys(re.findall(r"http://([\d.]+:\d+)", said)))
            assert masters, said
            yield command, masters
            command("cluster", "stop")
        finally:
            for cluster in clusters:
                cluster.close()


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tables(tmp_path_factory.mktemp("tpch"), SCALE)


@pytest.fixture(scope="module")
def expected(tables: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    """What plain PySpark gives."""
    folder = tmp_path_factory.mktemp("reference")
    server = ConnectServer(folder / "server", token=TOKEN)
    settings = [f"{key}={value}" for key, value in SETTINGS.items()]
    command = [sys.executable, "-m", "benchmarks.tpch.bare", str(server.port), TOKEN, *settings]
    requests = []
    for name, file in QUERIES.items():
        parameters = {**parameters_of(name, tables, SCALE), "output": str(folder / name)}
        requests.append(json.dumps({"file": str(file), "parameters": parameters}))
    try:
        subprocess.run(command, input="\n".join(requests), text=True, cwd=ROOT, check=True, timeout=LIMIT_S)
    finally:
        server.close()
    return {name: written(folder / name) for name in QUERIES}


@pytest.mark.parametrize("parallelism", [1, 3], ids=["fused", "spread"])
def test_every_query_has_the_rows_of_plain_pyspark(
    firesteel: tuple[Firesteel, str], tables: Path, expected: dict[str, pa.Table], tmp_path: Path, parallelism: int
) -> None:
    command, masters = firesteel
    for name, file in QUERIES.items():
        parameters = {**parameters_of(name, tables, SCALE), "output": str(tmp_path / name)}
        given = [part for key, value in parameters.items() for part in ("-p", f"{key}={value}")]
        given += [part for key, value in SETTINGS.items() for part in ("-D", f"{key}={value}")]
        command("run", str(file), "--master", masters, "--parallelism", str(parallelism), *given)
        compare(name, written(tmp_path / name), expected[name])
