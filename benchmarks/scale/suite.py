"""Scheduling at scale: jobs in the sizes of Flink's scheduler benchmarks, a thousand workers, a thousand small jobs.

All figures are processor time, which other programs on the machine do not disturb much; each job runs in a process of
its own. The budgets stand beside what Flink has published for 10,000 + 10,000 subtasks joined all to all: 0.63 s to
initialise the job, 17.2 s to deploy it, 0.17 s to compute a restart, 2 GiB of heap.
"""

import gc
import os
import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TypeVar

from benchmarks.flink import SCRIPT
from benchmarks.report import Report, Series, Verdict
from benchmarks.scale import flink, jobs
from benchmarks.scale.cluster import Cluster
from benchmarks.scale.smalljobs import run_small_jobs
from benchmarks.scale.stages import Run, run_batch, run_streaming

Argument = TypeVar("Argument")
Result = TypeVar("Result")

INITIALISATION_MS_MAX, DEPLOYMENT_MS_MAX, RESTART_MS_MAX, MEMORY_MB_MAX = 300, 2_000, 50, 200


@dataclass(frozen=True, slots=True)
class Scenario:
    """A job of two vertices of `parallelism` subtasks each, on `workers` workers that have a slot for each region."""

    kind: str
    parallelism: int
    workers: int

    @property
    def name(self) -> str:
        return f"{self.kind} {self.parallelism:,} + {self.parallelism:,} on {self.workers:,}"


LARGEST = Scenario("batch", 10_000, 100)
"""The one that budgets are for."""

SCENARIOS = (
    Scenario("batch", 4_000, 100),
    LARGEST,
    Scenario("streaming", 4_000, 100),
    Scenario("streaming", 10_000, 100),
    Scenario("streaming", 50_000, 1_000),
)
"""100,000 subtasks on 1,000 workers are no exchange: what each of so many workers reads would not fit into one process."""
QUICK = (Scenario("batch", 1_000, 20), Scenario("streaming", 1_000, 20))


def measure(rounds: int, *, quick: bool = False) -> Report:
    """Milliseconds of the master's processor time, stage by stage, and the bytes that it keeps."""
    scenarios = QUICK if quick else SCENARIOS
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for _ in range(1 if quick else rounds):
        for scenario in scenarios:
            for name, value in _in_process(stage_ms, scenario).items():
                values[f"{scenario.name}: {name}", "ms"].append(value)
        for name, value in _in_process(run_small_jobs, 100 if quick else 1_000).items():
            values[name, "ms"].append(value)
    largest = scenarios[0] if quick else LARGEST
    values[f"{largest.name}: kept by the master", "MB"].append(_in_process(kept_mb, largest))
    series = tuple(Series(name, unit, tuple(figures)) for (name, unit), figures in values.items())
    notes = ("processor time; pipelined all-to-all does not exist here: streaming jobs are fused subtask by subtask",)
    peer = os.environ.get(SCRIPT)
    return Report(
        case="scale",
        series=(*series, *(flink.measure(peer) if peer and not quick else ())),
        verdicts=tuple(_verdicts(largest, {each.name: each for each in series})),
        notes=notes,
    )


def stage_ms(scenario: Scenario) -> dict[str, float]:
    """Run one scenario: the master's milliseconds in each stage."""
    run = _prepared(scenario)
    _play(run, scenario)
    return {name: stage.master_s * 1_000 for name, stage in run.stages.items()}


def kept_mb(scenario: Scenario) -> float:
    """What goes when the master goes, while all of the last vertex runs: its JobMaster, and the store's fold."""
    kept: list[float] = []

    def at_peak(run: Run) -> None:
        store, core, cluster = run.cluster.store, run.core, run.cluster
        node = cluster.nodes[core.address]
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        columns, state = core._scheduler, store.state(run.graph.job_id)
        del state, columns, node, core, store
        _forget_master(run)
        gc.collect()
        kept.append((before - tracemalloc.get_traced_memory()[0]) / 1e6)
        raise _Measured

    tracemalloc.start()
    run = _prepared(scenario)
    run.at_peak = at_peak
    try:
        _play(run, scenario)
    except _Measured:
        return kept[0]
    raise AssertionError("the job has not come to where it is measured")


class _Measured(Exception):
    """The rest of the job is of no interest."""


def _forget_master(run: Run) -> None:
    run.cluster.nodes = {a: node for a, node in run.cluster.nodes.items() if node.account == "workers"}
    run.cluster.store = type(run.cluster.store)(1)
    del run.core


def _prepared(scenario: Scenario) -> Run:
    cluster = Cluster(scenario.workers, -(-scenario.parallelism // scenario.workers))
    make = jobs.batch if scenario.kind == "batch" else jobs.streaming
    return Run(cluster, make(scenario.parallelism))


def _play(run: Run, scenario: Scenario) -> None:
    play = run_batch if scenario.kind == "batch" else run_streaming
    play(run, scenario.parallelism)


def _in_process(function: Callable[[Argument], Result], argument: Argument) -> Result:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(function, argument).result()


def _verdicts(largest: Scenario, series: dict[str, Series]) -> Iterable[Verdict]:
    def of(*names: str) -> float:
        return sum(series[f"{largest.name}: {name}"].median for name in names)

    deployed = of("sources deployed", "the last finishes, sinks deployed")
    restart = max(of("what one sink's failure restarts, computed"), of("what a source's failure restarts, computed"))
    yield Verdict("job initialisation", of("job initialisation"), "ms", at_most=INITIALISATION_MS_MAX)
    yield Verdict("deployment of both vertices", deployed, "ms", at_most=DEPLOYMENT_MS_MAX)
    yield Verdict("restart computed", restart, "ms", at_most=RESTART_MS_MAX)
    yield Verdict("one sink fails and runs again", of("one sink fails and runs again"), "ms", at_most=RESTART_MS_MAX)
    yield Verdict("kept by the master", of("kept by the master"), "MB", at_most=MEMORY_MB_MAX)
