"""Commands that follow a job while leaders are killed, and the API server stands still again and again meanwhile.

FIRESTEEL_LEADER_KILLS says how often a leader is killed, 2 unless it is set.
"""

import asyncio
import random
import signal
from pathlib import Path

import pytest

from tests.durable import test_followers
from tests.stack.kubernetes.apiserver import RealApiServer

FROZEN_S = 3.0
PAUSE_MAX_S = 15.0


async def freeze_now_and_then(server: RealApiServer) -> None:
    times = 0
    try:
        while True:
            await asyncio.sleep(random.uniform(0, PAUSE_MAX_S))
            server.signal(signal.SIGSTOP)
            times += 1
            try:
                await asyncio.sleep(FROZEN_S)
            finally:
                server.signal(signal.SIGCONT)
    finally:
        print(f"the API server stood still {times} times for {FROZEN_S:g} s")


@pytest.mark.timeout(600 + 120 * test_followers.KILLS)
def test_on_kubernetes(tmp_path: Path, api_server: RealApiServer) -> None:
    async def story() -> None:
        async with asyncio.TaskGroup() as group:
            freezing = group.create_task(freeze_now_and_then(api_server))
            await test_followers.story(tmp_path, api_server.options())
            freezing.cancel()

    asyncio.run(story())
