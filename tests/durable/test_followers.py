"""Commands that follow a job while leaders are killed: none ends before its job, and none submits it twice.

FIRESTEEL_LEADER_KILLS says how often a leader is killed, 2 unless it is set.
"""

import asyncio
import contextlib
import os
import random
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.durable.masters import Master, Site, site
from tests.durable.test_standby import leader
from tests.durable.zookeeper import ZooKeeper, zookeeper_options
from tests.network.processes import until

KILLS = int(os.environ.get("FIRESTEEL_LEADER_KILLS", "2"))
MASTERS = 3
CLIENT_TIMEOUT_S = 20.0
"""Of commands: what they follow lasts longer, what they meet without a leader is shorter, on a busy machine too."""
PAUSE_MAX_S = 3.0

PIPELINE = """\
import firesteel as fs
pipeline = fs.Pipeline("followed")
@pipeline.source
def {source}(spark): ...
@pipeline.sink
def end({source}): ...
"""


class Command:
    """`firesteel ...` in the background, with what it says in a file."""

    def __init__(self, it: Site, name: str, *arguments: str) -> None:
        self.name, self._log = name, it.directory / f"{name}.command.log"
        masters = ",".join(f"127.0.0.1:{master.options['rest.port']}" for master in it.masters)
        command, *rest = arguments
        own = (
            "--master",
            masters,
            "-D",
            f"client.timeout={CLIENT_TIMEOUT_S} s",
            "-D",
            f"cluster.work-dir={it.directory}",
        )
        self._program = (sys.executable, "-m", "firesteel", command, *own, *rest)

    async def start(self) -> "Command":
        with open(self._log, "ab") as log:
            self.process = await asyncio.create_subprocess_exec(*self._program, stdout=log, stderr=log)
        return self

    async def until_it_says(self, text: str) -> None:
        async def said() -> bool:
            assert self.process.returncode is None, self.said()
            return text in self.said()

        await until(said)

    def said(self) -> str:
        return self._log.read_text()

    def check_that_it_follows(self) -> None:
        assert self.process.returncode is None, f"{self.name} has ended:\n{self.said()}"

    async def check_that_it_ends_well(self) -> None:
        assert await self.process.wait() == 0, self.said()

    async def end(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()


def job_id(number: int) -> str:
    return f"{number:032x}"


async def leading(it: Site) -> Master:
    """The master that leads and knows it."""
    found: list[Master] = []

    async def is_there() -> bool:
        for master in it.masters:
            with contextlib.suppress(httpx.HTTPError):
                if (await leader(master)).get("leads"):
                    found.append(master)
                    return True
        return False

    await until(is_there)
    return found[0]


async def story(directory: Path, options: dict[str, str]) -> None:
    (directory / "code").mkdir()
    held, quick, script = (directory / "code" / f"{name}.py" for name in ("held", "quick", "script"))
    held.write_text(PIPELINE.format(source="held"))
    quick.write_text(PIPELINE.format(source="quick"))
    script.write_text("from pyspark.sql import SparkSession\n")
    async with contextlib.AsyncExitStack() as ends:
        it = await ends.enter_async_context(site(directory, **options, **{"taskmanager.numberOfTaskSlots": "8"}))
        for number in range(MASTERS):
            await it.start_master(f"master{number}")
        await it.start_worker(await leading(it))
        it.hold("held")
        it.hold("script")

        async def started(name: str, *arguments: str) -> Command:
            command = await Command(it, name, *arguments).start()
            ends.push_async_callback(command.end)
            return command

        followers = [
            await started("run", "run", "--job-id", job_id(1), str(held)),
            await started("script", "run", "--job-id", job_id(2), str(script)),
        ]
        for each in followers:
            await each.until_it_says("RUNNING")
        followers.append(await started("attach", "attach", job_id(1)))
        await followers[-1].until_it_says("RUNNING")
        followers.append(await started("wait", "wait", job_id(2)))
        await asyncio.sleep(CLIENT_TIMEOUT_S + 1)
        gaps: list[float] = []
        for number in range(KILLS):
            leader_now = await leading(it)
            short = await started(f"short{number}", "run", "--job-id", job_id(10 + number), str(quick))
            await asyncio.sleep(random.uniform(0, PAUSE_MAX_S))  # somewhere between its start and its end
            await leader_now.kill()
            killed_s = time.monotonic()
            await leading(it)
            gaps.append(time.monotonic() - killed_s)
            await short.check_that_it_ends_well()
            again = await started(f"again{number}", "submit", "--job-id", job_id(10 + number), str(quick))
            await again.check_that_it_ends_well()
            await leader_now.start()
            for each in followers:
                each.check_that_it_follows()
        it.release("held")
        it.release("script")
        for each in followers:
            await each.check_that_it_ends_well()
        assert it.attempts().count("quick") == KILLS, "a job ran twice"
        assert (it.attempts().count("held"), it.attempts().count("script")) == (1, 1)
        figures = f"median {sorted(gaps)[len(gaps) // 2]:.2f} s, longest {max(gaps):.2f} s"
        print(f"{KILLS} leaders killed, {len(followers) + 2 * KILLS} commands ended well; without a leader: {figures}")


@pytest.mark.timeout(600 + 120 * KILLS)
def test_on_a_file_system(tmp_path: Path) -> None:
    asyncio.run(story(tmp_path, {}))


@pytest.mark.timeout(600 + 120 * KILLS)
def test_on_zookeeper(tmp_path: Path, zookeeper_server: ZooKeeper) -> None:
    asyncio.run(story(tmp_path, zookeeper_options(zookeeper_server)))
