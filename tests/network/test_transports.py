"""What a connection takes from its socket at once."""

import asyncio

from firesteel.adapters.rpc.transports import READ_BUFFER_BYTES, read_in_small_parts


class Parts(asyncio.Protocol):
    """Notes the length of each read."""

    def __init__(self) -> None:
        self.lengths: list[int] = []
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        read_in_small_parts(transport)

    def data_received(self, data: bytes) -> None:
        self.lengths.append(len(data))

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set_result(None)


def test_a_connection_reads_in_small_parts() -> None:
    parts = asyncio.run(_parts_of(bytes(10 * READ_BUFFER_BYTES)))
    assert sum(parts) == 10 * READ_BUFFER_BYTES
    assert max(parts) <= READ_BUFFER_BYTES


async def _parts_of(data: bytes) -> list[int]:
    """How many bytes each read of a connection gave."""
    loop, reader = asyncio.get_running_loop(), Parts()
    async with await loop.create_server(lambda: reader, "127.0.0.1", 0) as server:
        client, _ = await loop.create_connection(asyncio.Protocol, *server.sockets[0].getsockname())
        client.write(data)
        client.close()
        async with asyncio.timeout(300):
            await reader.ended
    return reader.lengths
