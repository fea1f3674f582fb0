"""Readers of the watched benchmark, in a process of their own: `python -m benchmarks.watchers ADDRESS STREAMS SCRAPE_S`.

Opens streams of events, as open dashboards have them, and scrapes the metrics every SCRAPE_S seconds if that is not 0. Says
`reading` once all streams are open, and goes on until its standard input ends.
"""

import asyncio
import sys
from urllib.parse import urlsplit

import httpx

PART_BYTES = 1 << 16


async def read(address: str, is_open: asyncio.Semaphore) -> None:
    """One dashboard. Nothing is made of what comes: that is the business of another machine's browser."""
    url = urlsplit(address)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    writer.write(b"GET /v1/events HTTP/1.1\r\nHost: %s\r\n\r\n" % url.netloc.encode())
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(head.decode())
    await reader.readuntil(b"\n\n")
    is_open.release()
    while await reader.read(PART_BYTES):
        pass
    raise ConnectionResetError("the master has ended a stream")


async def scrape(address: str, every_s: float) -> None:
    async with httpx.AsyncClient(base_url=address) as client:
        while True:
            (await client.get("/metrics")).raise_for_status()
            await asyncio.sleep(every_s)


async def main(address: str, streams: int, every_s: float) -> None:
    is_open = asyncio.Semaphore(0)
    async with asyncio.TaskGroup() as group:
        reading = [group.create_task(read(address, is_open)) for _ in range(streams)]
        if every_s:
            reading.append(group.create_task(scrape(address, every_s)))
        for _ in range(streams):
            await is_open.acquire()
        print("reading", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        for each in reading:
            each.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
