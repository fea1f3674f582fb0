"""Plans that Spark's planner has approved for a job: asked for once a vertex, not once a subtask."""

import contextlib
import fcntl
import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from firesteel.adapters.spark.exchange.forms import ROWS
from firesteel.adapters.spark.exchange.storedfiles import ROW_BYTES
from firesteel.adapters.spark.splits.kafka import FORMAT, RANGE_OPTIONS
from firesteel.adapters.storage.flocks import take_lock

_TURN_S, _LOOK_S = 10.0, 0.005
"""How long a process waits for the answer to another one's question before it asks itself, and how often it looks."""


class Approvals:
    """Empty files in a directory of the job's, named by what was approved. Whoever finds one need not ask, and of those that
    begin together one asks for all."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @contextlib.contextmanager
    def turn(self, digest: str) -> Iterator[None]:
        """Wait, but not for ever, while the first process asks about the same; those that it has noted nothing for ask at once."""
        with contextlib.ExitStack() as held:  # the turn ends with this process, too
            with contextlib.suppress(OSError):
                self._directory.mkdir(parents=True, exist_ok=True)
                lock = held.enter_context(open(self._directory / f".{digest}", "wb"))
                until = time.monotonic() + _TURN_S
                if take_lock(lock):
                    held.callback(
                        fcntl.flock, lock, fcntl.LOCK_UN
                    )  # a child that was forked meanwhile has it open, too
                else:
                    while digest not in self and not take_lock(lock) and time.monotonic() < until:
                        time.sleep(_LOOK_S)
                    held.close()
            yield

    def __contains__(self, digest: str) -> bool:
        return (self._directory / digest).exists()

    def add(self, digest: str) -> None:
        """A directory that can't be written to costs the others their question, nothing else."""
        try:
            (self._directory / digest).touch()
        except OSError:
            return


def digest_of(relations: Iterable[Any], settings: Mapping[str, str]) -> str:
    """Digest of marked plans and settings: equal for subtasks that do the same, whatever files their shares are in."""
    hashed = hashlib.sha256(repr(sorted(settings.items())).encode())
    ids: dict[int, int] = {}
    for relation in relations:
        plain = type(relation)()
        plain.CopyFrom(relation)
        _forget_places(plain, ids)
        hashed.update(plain.SerializeToString(deterministic=True))
    return hashed.hexdigest()


def _forget_places(message: Any, ids: dict[int, int]) -> None:
    """Number plan ids anew, and leave out files, offsets, lines of code and the numbers of marks, in place."""
    if message.DESCRIPTOR.name == "DataSource" and message.format == FORMAT:
        for option in RANGE_OPTIONS:
            message.options.pop(option, None)
    if message.DESCRIPTOR.name == "DataSource" and message.format == ROWS.source:
        message.options.pop(ROW_BYTES, None)
    for field, value in message.ListFields():
        is_mark = field.name == "name" and message.DESCRIPTOR.name == "CollectMetrics"
        is_place = field.name == "origin" or (field.name in ("paths", "predicates") and field.is_repeated)
        if is_mark or is_place:
            message.ClearField(field.name)
        elif field.name == "plan_id":
            setattr(message, field.name, ids.setdefault(value, len(ids)))
        elif field.message_type is not None:
            for item in value if field.is_repeated else (value,):
                if hasattr(item, "DESCRIPTOR"):
                    _forget_places(item, ids)
