"""Whether a Spark that is elsewhere can be reached from here, and as whom this host is seen there."""

import asyncio
import contextlib
import platform

from firesteel.adapters.spark.clusters.masters import SparkMaster
from firesteel.model import options

CONNECT_S = 4.0
"""Time that one address has to answer."""


class MasterUnreachable(Exception):
    """Nobody answers at any of its addresses. The text says from where that was tried, and what to do."""


async def driver_host(master: SparkMaster) -> str:
    """The address of this host on the way to the master; empty where the master has no address that is known.

    Raises MasterUnreachable, after some seconds for each address at the most.
    """
    problems: list[str] = []
    for host, port in master.addresses:
        try:
            async with asyncio.timeout(CONNECT_S):
                _, writer = await asyncio.open_connection(host, port)
        except TimeoutError:
            problems.append(f"{host}:{port} has not answered within {CONNECT_S:g} s")
        except UnicodeError:
            problems.append(f"{host}:{port}: no host can have that name")
        except OSError as error:
            problems.append(f"{host}:{port}: {error.strerror or error}")
        else:
            own: str = writer.get_extra_info("sockname")[0]
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            return own
    if not problems:
        return ""
    raise MasterUnreachable(
        f"{master.shown} can't be reached from {platform.node()} ({'; '.join(problems)}): start it, let this host"
        f" through to it, or correct {options.SPARK_MASTER.key}"
    )
