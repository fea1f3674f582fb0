"""Bodies of requests, as they come."""

import asyncio
from collections.abc import AsyncIterator

from starlette.requests import Request

from firesteel.rest.errors import RestError

READ_TIMEOUT_S = 60.0
"""A client that sends nothing for so long has gone."""


async def chunks(request: Request) -> AsyncIterator[bytes]:
    """Raises RestError 408 for a client that stops in the middle, and ClientDisconnect for one that says so."""
    stream = request.stream()
    while True:
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                chunk = await anext(stream, None)
        except TimeoutError:
            raise RestError(408, f"Nothing has come for {READ_TIMEOUT_S:.0f} s: the request is given up.") from None
        if chunk is None:
            return
        yield chunk
