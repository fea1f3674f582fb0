"""`firesteel zookeeper`: a small ZooKeeper server in the foreground."""

from pathlib import Path

import click

from firesteel.cli.exits import UNREACHABLE, CommandError
from firesteel.cli.java import java_problem
from firesteel.cli.processes.foreground import run_in_foreground
from firesteel.model.options import Configuration


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=2181, show_default=True, help="0 takes a free one.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where its data is, for the next start; without, in a temporary directory that goes at the end.",
)
@click.option(
    "--tick-ms", type=click.IntRange(min=10), default=2_000, show_default=True, help="Sessions last 2 to 20 ticks."
)
def zookeeper(host: str, port: int, data_dir: Path | None, tick_ms: int) -> int:
    """Run a ZooKeeper server from PySpark's jars in the foreground, for trials.

    A single server: for an ensemble install ZooKeeper itself. Whoever reaches it may change everything in it.
    Its log goes to standard error. SIGTERM stops it; exit codes: 0 stopped, 1 it could not go on, 3 it could
    not start.
    """
    from firesteel.adapters.ha.zookeeperserver import ZooKeeperServer

    if problem := java_problem():
        raise CommandError(problem, UNREACHABLE)

    def make(config: Configuration) -> ZooKeeperServer:
        return ZooKeeperServer(host, port, data_dir.absolute() if data_dir else None, tick_ms=tick_ms)

    return run_in_foreground((), make)
