"""Threads of their own for the store of blobs: the leader's signs of life and its log have those of the event loop."""

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

BLOB_THREADS = 4

P = ParamSpec("P")
T = TypeVar("T")

_threads = ThreadPoolExecutor(BLOB_THREADS, thread_name_prefix="blobs")


async def in_blob_thread(call: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """As asyncio.to_thread, in one of BLOB_THREADS: only other blobs wait for it."""
    work = functools.partial(call, *arguments, **named)
    return await asyncio.get_running_loop().run_in_executor(_threads, work)
