"""TPC-H on a running cluster: what firesteel adds to the same PySpark code run bare, fused and through stored results.

All sides use one Spark Connect server, warmed on small tables, with the same settings; with `--spark-master` it is the
driver of an application on that cluster. Query by query every side runs once, in an order that turns from round to
round, so that noise hits all alike. The ratio of a round is that of the sums over all queries. "By hand" is the bare
code that writes and reads again, as Parquet, what the stored side stores.
"""

import asyncio
import json
import shutil
import statistics
import tempfile
import uuid
from asyncio.subprocess import Process
from collections.abc import Mapping
from pathlib import Path

import firesteel as fs
from benchmarks.report import ROOT, Report, Series, Verdict, turned
from benchmarks.tpch import QUERIES
from benchmarks.tpch.tables import make_tables, parameters_of
from benchmarks.warm import bare_client, run
from firesteel.minicluster import MiniCluster
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import ExchangeMode
from firesteel.pipeline.build import BuildRequest, BuiltJob, build_file

SCALE, QUICK_SCALE = 7.0, 0.1
SUITE_S_MIN = 300
"""A suite that is shorter says little: the report notes it."""
FUSED_MAX, STORED_AIM, BY_HAND_MAX = 1.02, 1.25, 1.0
QUERY_TIMEOUT_S = 1_800
HEAP = "6g"
SETTINGS = {"spark.sql.shuffle.partitions": "4"}
SIDES = {"bare": 0, "by hand": 0, "fused": 1, "stored": 2}
"""With what parallelism: above 1 there are stored results between the vertices. 0: without firesteel."""


def measure(rounds: int, *, quick: bool = False, scale: float | None = None, spark_master: str | None = None) -> Report:
    """Seconds a suite of every side; one short round on small tables with `quick`."""
    more = {"taskmanager.spark.master": spark_master} if spark_master else {}
    if quick:
        return asyncio.run(_measure(1, scale or QUICK_SCALE, more, warm_up=False))
    return asyncio.run(_measure(rounds, scale or SCALE, more))


async def _measure(rounds: int, scale: float, more: Mapping[str, str], *, warm_up: bool = True) -> Report:
    tables, small = (make_tables(ROOT / "build" / f"tpch-{each:g}", each) for each in (scale, QUICK_SCALE))
    seconds: dict[str, dict[str, list[float]]] = {side: {name: [] for name in QUERIES} for side in SIDES}
    with tempfile.TemporaryDirectory(prefix="firesteel-bench-") as scratch:
        options = {"cluster.work-dir": f"{scratch}/work", "taskmanager.spark.heap": HEAP, **more}
        async with MiniCluster(fs.Configuration(options)) as cluster:
            suite = _Suite(cluster, tables, scale, Path(scratch, "suite"))
            await suite.run("fused", "q06")
            async with bare_client(cluster, "benchmarks.tpch.bare", *_settings()) as bare:
                if warm_up:
                    await _round(_Suite(cluster, small, QUICK_SCALE, Path(scratch, "warm-up"), bare), list(SIDES), 0)
                suite.bare = bare
                for number in range(rounds):
                    measured = await _round(suite, list(SIDES), number)
                    for (side, name), elapsed in measured.items():
                        seconds[side][name].append(elapsed)
                    print(f"round {number + 1} of {rounds}:", _sums(measured), flush=True)
    return _report(seconds, scale)


async def _round(suite: "_Suite", sides: list[str], number: int) -> dict[tuple[str, str], float]:
    """Seconds of every query on every one of these sides."""
    return {
        (side, name): await suite.run(side, name)
        for position, name in enumerate(QUERIES)
        for side in turned(sides, number + position)
    }


def _sums(measured: Mapping[tuple[str, str], float]) -> str:
    totals = {side: sum(value for (of, _), value in measured.items() if of == side) for side in SIDES}
    return ", ".join(f"{side} {total:.1f} s" for side, total in totals.items() if total)


class _Suite:
    """Runs one query on one side; every run has an output of its own."""

    def __init__(
        self, cluster: MiniCluster, tables: Path, scale: float, folder: Path, bare: Process | None = None
    ) -> None:
        folder.mkdir()
        self.bare = bare
        self._cluster, self._output, self._scratch = cluster, folder / "out", folder / "scratch"
        self._parameters = {
            name: {**parameters_of(name, tables, scale), "output": str(self._output)} for name in QUERIES
        }
        self._jobs = {(side, name): self._job(folder, side, name) for side in SIDES if SIDES[side] for name in QUERIES}

    async def run(self, side: str, name: str) -> float:
        """Seconds from the start of the query to its visible output."""
        try:
            if SIDES[side]:
                return await run(self._cluster, self._jobs[side, name]) / 1_000
            return await self._run_bare(name, self._stored(name) if side == "by hand" else [])
        finally:
            for directory in (self._output, self._scratch):
                shutil.rmtree(directory, ignore_errors=True)

    def _stored(self, name: str) -> list[str]:
        """Functions whose results are stored on the side that stores."""
        graph = self._jobs["stored", name].graph
        stored = {edge.source for edge in graph.edges if edge.exchange is ExchangeMode.BLOCKING}
        return [dataset.name for dataset in graph.datasets if dataset.id in stored]

    async def _run_bare(self, name: str, stored: list[str]) -> float:
        assert self.bare is not None
        assert self.bare.stdin is not None
        assert self.bare.stdout is not None
        request = {
            "file": str(QUERIES[name]),
            "parameters": self._parameters[name],
            "stored": stored,
            "scratch": str(self._scratch),
        }
        self.bare.stdin.write(json.dumps(request).encode() + b"\n")
        async with asyncio.timeout(QUERY_TIMEOUT_S):
            if not (answer := await self.bare.stdout.readline()):
                raise RuntimeError(f"{name} failed without firesteel")
        return float(answer)

    def _job(self, folder: Path, side: str, name: str) -> BuiltJob:
        """Built once; the runs get ids of their own."""
        artifacts = folder / f"{name}-{side}"
        artifacts.mkdir()
        request = BuildRequest(
            file=str(QUERIES[name]),
            job_id=JobID(uuid.uuid4().hex),
            parameters=self._parameters[name],
            configuration=SETTINGS,
            output_dir=str(artifacts),
            parallelism=SIDES[side],
        )
        return build_file(request)


def _settings() -> list[str]:
    return [f"{key}={value}" for key, value in SETTINGS.items()]


def _report(seconds: Mapping[str, Mapping[str, list[float]]], scale: float) -> Report:
    sums = {
        side: [sum(values) for values in zip(*by_query.values(), strict=True)] for side, by_query in seconds.items()
    }
    ratios = {
        side: tuple(mine / bare for mine, bare in zip(sums[side], sums["bare"], strict=False))
        for side in SIDES
        if side != "bare"
    }
    series = [Series(f"suite, {side}", "s", tuple(values)) for side, values in sums.items()]
    series += [Series(f"suite, {side} / bare", "ratio", values) for side, values in ratios.items()]
    by_hand = tuple(mine / theirs for mine, theirs in zip(sums["stored"], sums["by hand"], strict=True))
    series.append(Series("suite, stored / by hand", "ratio", by_hand))
    notes = [_note(side, seconds) for side in ratios]
    if statistics.median(sums["bare"]) < SUITE_S_MIN:
        notes.append(f"scale factor {scale:g} makes a suite of less than {SUITE_S_MIN} s here: the ratios say little")
    return Report(
        case="tpch",
        series=tuple(series),
        verdicts=(
            Verdict("fused / bare", statistics.median(ratios["fused"]), "ratio", at_most=FUSED_MAX),
            Verdict("stored / bare", statistics.median(ratios["stored"]), "ratio", at_most=STORED_AIM),
            Verdict("stored / by hand", statistics.median(by_hand), "ratio", at_most=BY_HAND_MAX),
        ),
        notes=tuple(notes),
    )


def _note(side: str, seconds: Mapping[str, Mapping[str, list[float]]]) -> str:
    """What a side adds to each query, by the medians."""
    added = {
        name: statistics.median(values) - statistics.median(seconds["bare"][name])
        for name, values in seconds[side].items()
    }
    each = ", ".join(f"{name} {value * 1_000:+.0f}" for name, value in added.items())
    return f"{side} - bare, ms: {each}; median {statistics.median(added.values()) * 1_000:+.0f}"
