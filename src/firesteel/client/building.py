"""Jobs are built where no user's code can harm who asks: in a process of its own."""

import asyncio
import os
import sys
import uuid
from pathlib import Path

from firesteel.model.jobgraph import CLIENT_DIRECTORY_VARIABLE

BUILD_ENTRY_POINT = "firesteel.pipeline.build:build_in_child"


class BuildProcessFailed(OSError):
    """The process that builds jobs has ended without an answer: it was killed, or the machine has no memory left."""


async def call_in_process(directory: Path, entry_point: str, payload: bytes) -> bytes:
    """Run `module:function(bytes) -> bytes` in a process of its own, by way of `directory`. Raises BuildProcessFailed."""
    answer = directory / f"answer-{uuid.uuid4().hex}"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "firesteel.client.child", entry_point, os.fspath(answer)),
        stdin=asyncio.subprocess.PIPE,
        env={CLIENT_DIRECTORY_VARIABLE: os.getcwd(), **os.environ, "SPARK_CONNECT_MODE_ENABLED": "1"},
    )
    try:
        await process.communicate(payload)
    except BaseException:
        process.kill()
        await process.wait()
        raise
    if not answer.is_file():
        raise BuildProcessFailed(
            f"the pipeline's file can't be loaded: the process that did so has ended with code {process.returncode}"
        )
    return await asyncio.to_thread(answer.read_bytes)
