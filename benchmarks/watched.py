"""What it costs to be looked at: no-ops while nobody looks, while Prometheus scrapes, and while dashboards are open.

Metrics that nobody scrapes are measured all the same, so they are compared with a cluster whose worker measures once a day.
"""

import contextlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.report import ROOT, Report, Series, Verdict
from benchmarks.rest import CLIENTS, SETTINGS, WARM_UP_JOBS
from benchmarks.session import Cluster, Run, started
from benchmarks.tasks import no_ops

JOBS = 960
"""Of a round, in each of its ways."""
DASHBOARDS = 100
SCRAPE_S = 1.0
"""Time between two scrapes: Prometheus waits 15 times as long unless it is configured."""
METRICS_RATIO_MAX, DASHBOARDS_RATIO_MAX = 1.02, 1.10
"""Times as much of the master's processor time a job, at most, as where nothing is measured, and where nobody looks."""

UNMEASURED = {**SETTINGS, "metrics.fetcher.update-interval": "1 d"}


def measure(rounds: int) -> Report:
    """Jobs a second, and the master's processor time a job, in each way; ways take turns within a round.

    Those that are compared are of one cluster, or of two that have run as many jobs: a master knows them all.
    """
    unmeasured: list[Run] = []
    scraped: list[Run] = []
    measured: list[Run] = []
    watched: list[Run] = []
    with contextlib.ExitStack() as ends:
        places = [Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="firesteel-bench-"))) for _ in range(3)]
        graph = no_ops(places[0], 1).graph
        settings = (UNMEASURED, SETTINGS, SETTINGS)
        clusters = [ends.enter_context(started(*each)) for each in zip(places, settings, strict=True)]
        for each in clusters:
            each.load(graph, CLIENTS, WARM_UP_JOBS)
        plain, cluster, other = clusters
        for _ in range(rounds):
            unmeasured.append(plain.load(graph, CLIENTS, JOBS))
            with _looked_at(cluster, 0, SCRAPE_S):
                scraped.append(cluster.load(graph, CLIENTS, JOBS))
            measured.append(other.load(graph, CLIENTS, JOBS))
            with _looked_at(other, DASHBOARDS, 0.0):
                watched.append(other.load(graph, CLIENTS, JOBS))
    metrics, dashboards = _ratio(scraped, unmeasured), _ratio(watched, measured)
    ways = {
        "nothing is measured": unmeasured,
        f"metrics, scraped every {SCRAPE_S:g} s": scraped,
        "nobody looks": measured,
        f"{DASHBOARDS} dashboards": watched,
    }
    return Report(
        case="watched",
        series=(
            *(Series(f"no-ops, {way}", "jobs/s", _throughput(runs)) for way, runs in ways.items()),
            *(Series(f"master's processor time a job, {way}", "ms", _cpu_ms(runs)) for way, runs in ways.items()),
        ),
        verdicts=(
            Verdict("master's time a job, metrics, scraped / no metrics", metrics, "times", at_most=METRICS_RATIO_MAX),
            Verdict(
                f"master's time a job, {DASHBOARDS} dashboards / nobody looks",
                dashboards,
                "times",
                at_most=DASHBOARDS_RATIO_MAX,
            ),
        ),
        notes=(
            "a master is as fast as its one loop: its processor time a job says what it could do. Those who look are on the same"
            " machine, so that what they take lowers the jobs a second, too.",
        ),
    )


@contextlib.contextmanager
def _looked_at(cluster: Cluster, streams: int, scrape_s: float) -> Iterator[None]:
    """By a process of its own, within the block."""
    program = (sys.executable, "-m", "benchmarks.watchers", cluster.address, str(streams), str(scrape_s))
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as looking:
        assert looking.stdout is not None, "it is piped"
        if not looking.stdout.readline():
            raise RuntimeError("those who look could not begin")
        yield
        looking.communicate(b"")
    if looking.returncode != 0:
        raise RuntimeError("those who look were cut off")


def _throughput(runs: list[Run]) -> tuple[float, ...]:
    return tuple(run.jobs_per_second for run in runs)


def _cpu_ms(runs: list[Run]) -> tuple[float, ...]:
    return tuple(run.cpu_ms(run.master_cpu_s) for run in runs)


def _ratio(runs: list[Run], undisturbed: list[Run]) -> float:
    """Of the two ways in each round, of which the median: what else the machine does hits both alike."""
    pairs = zip(_cpu_ms(runs), _cpu_ms(undisturbed), strict=True)
    return statistics.median(one / other for one, other in pairs)
