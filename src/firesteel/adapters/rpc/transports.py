"""Transports of long-lived processes: how their connections read."""

import asyncio

READ_BUFFER_BYTES = 16 << 10
"""Taken from a socket at once.

asyncio allocates as much for every read, 256 KiB by default, and gives back what was not filled. A C heap from which a few
hundred bytes of each are kept for a while has no hole of that size any more: it grew by 340 bytes with every job.
"""


def read_in_small_parts(transport: asyncio.BaseTransport) -> None:
    """Has an effect on asyncio's own sockets; what is encrypted is read into a buffer that is kept."""
    if hasattr(transport, "max_size"):
        transport.max_size = READ_BUFFER_BYTES
