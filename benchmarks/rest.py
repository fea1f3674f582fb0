"""Built-in no-ops through a real master and a real worker, over REST: what the control plane alone costs.

`firesteel jobmanager` and `firesteel taskmanager` are processes of their own, and so are the clients. Wall time says
little on a machine that does other things too; processor time of each process is what a job costs.
"""

import tempfile
from pathlib import Path

from benchmarks.report import Report, Series, Verdict
from benchmarks.session import Run, started
from benchmarks.tasks import no_ops

SLOTS, CLIENTS = 32, 16
"""A job gives its slot back after its result is told: twice as many slots as clients are never what is waited for."""
JOBS_ALONE, JOBS_TOGETHER, WARM_UP_JOBS = 200, 960, 320
"""Jobs of a round, by one client and by CLIENTS of them."""
OVERVIEW_JOBS = 10_000
P50_MS_MAX, P99_MS_MAX, JOBS_PER_SECOND_MIN, OVERVIEW_MS_MAX = 15, 300, 300, 50
MASTER_MIB_MAX = 200

SETTINGS = {"jobstore.max-capacity": str(OVERVIEW_JOBS), "taskmanager.numberOfTaskSlots": str(SLOTS)}


def measure(rounds: int) -> Report:
    """Milliseconds of a job, jobs a second, processor time of each process a job, overviews, memory."""
    own: list[Run] = []
    alone: list[Run] = []
    together: list[Run] = []
    with tempfile.TemporaryDirectory(prefix="firesteel-bench-") as scratch:
        graph = no_ops(Path(scratch), 1).graph
        with started(Path(scratch), SETTINGS) as cluster:
            cluster.load(graph, CLIENTS, WARM_UP_JOBS)
            for _ in range(rounds):
                own.append(cluster.load(graph, 1, JOBS_ALONE, is_bare=False))
                alone.append(cluster.load(graph, 1, JOBS_ALONE))
                together.append(cluster.load(graph, CLIENTS, JOBS_TOGETHER))
            small_mib = cluster.memory_mib()
            cluster.load(graph, CLIENTS, OVERVIEW_JOBS)
            overviews, overview_cpu_ms = cluster.overview_ms()
            large_mib = cluster.memory_mib()
    series = _series(own, alone, together, overviews)
    return Report(
        case="rest",
        series=series,
        verdicts=(
            Verdict("no-op over REST, our client, p50", series[0].median, "ms", at_most=P50_MS_MAX),
            Verdict(f"no-ops of {CLIENTS} clients", series[3].median, "jobs/s", at_least=JOBS_PER_SECOND_MIN),
            Verdict(f"no-op of {CLIENTS} clients, p99", percentile(series[2].values, 99), "ms", at_most=P99_MS_MAX),
            Verdict(f"overview of {OVERVIEW_JOBS:,} ended jobs", series[-1].median, "ms", at_most=OVERVIEW_MS_MAX),
            Verdict("master's processor time of an overview", overview_cpu_ms, "ms"),
            Verdict("master's memory after the rounds", small_mib, "MiB", at_most=MASTER_MIB_MAX),
            Verdict(f"master's memory, {OVERVIEW_JOBS:,} ended jobs kept", large_mib, "MiB"),
        ),
        notes=(f"the worker is a real one with {SLOTS} slots; its Spark was up and idle.",),
    )


def _series(own: list[Run], alone: list[Run], together: list[Run], overviews: list[float]) -> tuple[Series, ...]:
    jobs = [run.cpu_ms(run.master_cpu_s) for run in together]
    workers = [run.cpu_ms(run.worker_cpu_s) for run in together]
    clients = [run.cpu_ms(run.clients.cpu_seconds) for run in together]
    return (
        Series("a no-op, one client of ours", "ms", _milliseconds(own)),
        Series("a no-op, one bare client", "ms", _milliseconds(alone)),
        Series(f"a no-op, {CLIENTS} bare clients", "ms", _milliseconds(together)),
        Series(f"{CLIENTS} bare clients", "jobs/s", tuple(run.jobs_per_second for run in together)),
        Series("master's processor time a job", "ms", tuple(jobs)),
        Series("worker's processor time a job", "ms", tuple(workers)),
        Series("bare clients' processor time a job", "ms", tuple(clients)),
        Series("our client's processor time a job", "ms", tuple(run.cpu_ms(run.clients.cpu_seconds) for run in own)),
        Series("overview", "ms", tuple(overviews)),
    )


def _milliseconds(runs: list[Run]) -> tuple[float, ...]:
    return tuple(value for run in runs for value in run.clients.milliseconds)


def percentile(values: tuple[float, ...], percent: int) -> float:
    """The value that `percent` of all do not exceed."""
    return sorted(values)[max(0, -(-len(values) * percent // 100) - 1)]
