"""Whether a backend that is up answers. One that is stopped, swapped out, or collects garbage for minutes keeps its port, and
says nothing: Connect clients wait for it."""

import asyncio
import time
from collections.abc import Callable

from firesteel.adapters.spark.jvm.process import SparkJvm
from firesteel.adapters.spark.jvm.starts import Patience, work_of
from firesteel.adapters.spark.wire import SparkAddress

LOOK_SECONDS = 5.0
"""Time between two looks."""
ANSWER_SECONDS = 10.0
"""Time in which a backend answers that is well, however busy."""
VAIN_LOOKS_MIN = 3
"""Looks in a row that a backend has to be silent before it is ended: this process may have been stopped, too."""
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
"""A client's first words, with settings that are empty, to which any server answers with its own (RFC 9113, 3.4)."""


async def answers(endpoint: SparkAddress) -> bool:
    """Whether somebody answers there, or nobody listens: then it has ended, which others see to."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
            try:
                writer.write(_HELLO)
                await reader.read(1)
            finally:
                writer.close()
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


async def silence(jvm: SparkJvm, endpoint: SparkAddress, limit_seconds: float, show: Callable[[str], None]) -> str:
    """Look at a JVM until it is to be ended, and say why: it has neither answered nor worked for `limit_seconds`, or not
    answered for some times that. `show` is given what those wait for who use it; an empty text while it answers."""
    patience, since, in_vain = Patience(limit_seconds, 0.0), 0.0, 0
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        asked = time.monotonic()
        if await answers(endpoint):
            in_vain = 0
            show("")
            continue
        if not in_vain:
            patience, since = Patience(limit_seconds, asked), asked
        now, in_vain = time.monotonic(), in_vain + 1
        patience.note(await asyncio.to_thread(work_of, jvm.pid, jvm.log), now)
        show(f"Spark to answer (silent for {now - since:.0f} s)")
        if in_vain >= VAIN_LOOKS_MIN and patience.is_over(now):
            return patience.why(now)
