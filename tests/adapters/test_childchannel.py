"""What a task process sends its worker comes whole, whichever of its threads sends it."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

from firesteel.adapters.spark import wire

LARGE = 300_000
"""Bytes of a message that the kernel takes in pieces."""
MESSAGES = 16


def test_messages_of_threads_come_whole() -> None:
    async def story() -> list[wire.FromChild | None]:
        ours, theirs = socket.socketpair()
        channel = wire.ChildChannel(theirs)
        reader, writer = await asyncio.open_connection(sock=ours)
        with ThreadPoolExecutor(MESSAGES) as threads, theirs:
            for number in range(MESSAGES):
                threads.submit(channel.send, wire.Cached(str(number), relation=bytes([number]) * LARGE))
            try:
                async with asyncio.timeout(60):
                    return [await wire.read_message(reader) for _ in range(MESSAGES)]
            finally:
                writer.transport.abort()  # who still sends is to end, too

    found = asyncio.run(story())
    assert sorted(int(each.session_id) for each in found if isinstance(each, wire.Cached)) == list(range(MESSAGES))
    assert all(
        each.relation == bytes([int(each.session_id)]) * LARGE for each in found if isinstance(each, wire.Cached)
    )
