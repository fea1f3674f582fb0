"""What a command and a kept cluster say to each other, over a socket that only their user can open.

The connection is the command: the kernel closes it however the command ends, and then its job is cancelled.
"""

import asyncio
import struct
from typing import Any

import msgspec

from firesteel.cli.keeping.identity import Identity
from firesteel.model.failures import FailureInfo
from firesteel.model.ids import JobID
from firesteel.model.stored import UNREADABLE

BYTES_MAX = 64 << 20
"""Largest message: a job that was built has its graph in it."""

_LENGTH = struct.Struct(">I")


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """The order with which a kept cluster is begun, on its standard input."""

    configuration: dict[str, str]
    identity: Identity
    keep_s: float
    place: str
    """Directory of its socket."""


class Hello(msgspec.Struct, frozen=True, tag=True):
    """A command would use the cluster."""

    identity: Identity
    keep_s: float | None = None
    """Time for which it is to be kept after that; None leaves that as it is."""


class Look(msgspec.Struct, frozen=True, tag=True):
    """A question for its state."""


class Build(msgspec.Struct, frozen=True, tag=True):
    """A BuildRequest as JSON, for a process that has PySpark loaded."""

    payload: bytes


class Runs(msgspec.Struct, frozen=True, tag=True):
    """The job that is about to be submitted: it ends with this connection."""

    job_id: JobID


class Welcome(msgspec.Struct, frozen=True, tag=True):
    """The command may use it, until it closes the connection."""

    url: str
    token: str
    work_dir: str
    keep_s: float
    """Time that it stays after that."""


class Busy(msgspec.Struct, frozen=True, tag=True):
    """Another command uses it."""


class Differs(msgspec.Struct, frozen=True, tag=True):
    """It was begun with something else."""

    names: list[str]


class State(msgspec.Struct, frozen=True, tag=True):
    """Answer to a Look."""

    directory: str
    is_used: bool
    left_s: float


class Built(msgspec.Struct, frozen=True, tag=True):
    """Answer to a Build."""

    payload: bytes


class NotBuilt(msgspec.Struct, frozen=True, tag=True):
    """Why there is none: the environment's fault."""

    failure: FailureInfo


Opening = Hello | Look
"""The first word of a connection."""
Request = Build | Runs
"""A word of a command that was welcomed."""
Answer = Welcome | Busy | Differs
Message = Opening | Request | Answer | State | Built | NotBuilt


async def say(writer: asyncio.StreamWriter, message: Message) -> None:
    """Raises ConnectionError when nobody listens."""
    body = msgspec.msgpack.encode(message)
    writer.write(_LENGTH.pack(len(body)) + body)
    await writer.drain()


async def hear(reader: asyncio.StreamReader, kind: Any) -> Any:
    """The next message, of the kind or union of kinds. Raises ConnectionError when there is none, or one of another version."""
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        if length > BYTES_MAX:
            raise ConnectionError(f"a message of {length} bytes")
        return msgspec.msgpack.decode(await reader.readexactly(length), type=kind)
    except (asyncio.IncompleteReadError, *UNREADABLE) as error:
        raise ConnectionError(f"no word from the other side: {error}") from None
