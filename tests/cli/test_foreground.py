"""Signals of a process of a cluster: one asks for a clean stop, two end it; its own does not count as one of others."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

SERVES = """
import asyncio, sys
from firesteel.cli.processes import foreground

async def serve():
    told = asyncio.get_running_loop().create_future()
    foreground._on_signals(told)
    print("serves", flush=True)
    if "own" in sys.argv:
        foreground.end_itself()
    await told
    print("stops", flush=True)
    await asyncio.sleep(600)

asyncio.run(serve())
"""
LIMIT_S = 300.0


@pytest.fixture(params=["own", "others"])
def stopping(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """A process that stops, as told by itself or by a signal of others."""
    command = [sys.executable, "-c", SERVES, request.param]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "serves\n"
        if request.param == "others":
            process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "stops\n"
        yield process
        process.kill()


def test_the_second_signal_of_others_ends_it(stopping: subprocess.Popen[str]) -> None:
    if stopping.args[-1] == "own":  # type: ignore[index]
        stopping.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            stopping.wait(0.5)
    stopping.send_signal(signal.SIGINT)
    assert stopping.wait(LIMIT_S) == 128 + signal.SIGINT
