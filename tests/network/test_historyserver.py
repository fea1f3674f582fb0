"""`firesteel historyserver` as users start it: it serves, it ends when told to, and says what is wrong."""

import asyncio
import re
import signal
import socket
import sys
from pathlib import Path

import httpx

from tests.adapters.archives import archived, put
from tests.network.processes import LIMIT_S, until

STARTED = re.compile(rb"started history server, REST at (http://\S+)")


async def start(**options: str) -> asyncio.subprocess.Process:
    given = {f"historyserver.{name.replace('_', '.')}": value for name, value in options.items()}
    arguments = [part for key, value in given.items() for part in ("-D", f"{key}={value}")]
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "firesteel", "historyserver", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


def test_it_serves_until_it_is_told_to_end(tmp_path: Path) -> None:
    put(tmp_path, archived("it"))
    torn = put(tmp_path, archived("torn"))
    torn.write_bytes(b"no archive")

    async def story() -> None:
        async with asyncio.timeout(LIMIT_S):
            process = await start(archive_fs_dir=f"{tmp_path},{tmp_path / 'later'}", web_port="0")
            assert process.stdout is not None
            found = STARTED.search(await process.stdout.readline())
            assert found is not None
            async with httpx.AsyncClient(base_url=found[1].decode(), timeout=LIMIT_S) as http:

                async def lists() -> bool:
                    return [job["name"] for job in (await http.get("/jobs/overview")).json()["jobs"]] == ["it"]

                await until(lists)
            process.send_signal(signal.SIGTERM)
            _, log = await process.communicate()
            assert process.returncode == 0, log
            assert torn.name.encode() in log
            assert f"{tmp_path / 'later'} is no directory now".encode() in log
            assert b"Traceback" not in log

    asyncio.run(story())


def test_what_keeps_it_from_starting_is_said(tmp_path: Path) -> None:
    async def story() -> None:
        async with asyncio.timeout(LIMIT_S):
            process = await start()
            _, told = await process.communicate()
            assert (process.returncode, b"historyserver.archive.fs.dir" in told) == (2, True), told
            with socket.create_server(("127.0.0.1", 0)) as taken:
                port = str(taken.getsockname()[1])
                process = await start(archive_fs_dir=str(tmp_path), web_port=port)
                _, told = await process.communicate()
            assert (process.returncode, b"historyserver.web.port" in told) == (3, True), told

    asyncio.run(story())
