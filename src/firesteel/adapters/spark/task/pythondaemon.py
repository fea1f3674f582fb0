"""The daemon that Spark starts its Python workers from, on this machine: PySpark's own, with two things more.

What functions print there goes to the log of their attempt, and not to that of the JVM. And modules of the user's can
be imported there that declare functions with a type as text, though a worker has no session.
"""

import contextlib
import os
import socket
import sys

from firesteel.pipeline.declarations import need_no_session

PRINTED_VARIABLE = "FIRESTEEL_PYTHON_PRINTED"
"""Directory with a link for each session, by the server's id of it, to where its functions print (`launch.py`, which is
not loaded here: every daemon would take the time)."""
SESSION_VARIABLE = "SPARK_JOB_ARTIFACT_UUID"


def main() -> None:
    from pyspark import daemon

    need_no_session()
    work = daemon.worker

    def worker(sock: socket.socket, authenticated: bool) -> int:
        print_to_attempt()
        return work(sock, authenticated)

    daemon.worker = worker
    daemon.manager()


def print_to_attempt() -> None:
    """Print to the attempt's log from here on, in a worker; where nobody has said whose it is, as before."""
    place = os.path.join(os.environ.get(PRINTED_VARIABLE, ""), os.environ.get(SESSION_VARIABLE, ""))
    with contextlib.suppress(OSError):
        file = os.open(place, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK)  # a pipe that nobody reads is an error
        os.set_blocking(file, True)
        for number in (1, 2):
            os.dup2(file, number)
        os.close(file)
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(line_buffering=True, write_through=False)  # type: ignore[union-attr]


if __name__ == "__main__":
    main()
