"""A commit whose process is killed at a certain place. Runs in a child of the backend's fork server."""

import json
import os
import random
import signal
import threading
import time
from typing import Any

from firesteel.adapters.spark.sinks import deltacommit, icebergcommit, versionedcommit, versions
from firesteel.adapters.storage import local

INSIDE_MS = (20, 1500)
"""While Spark writes the rows: nobody tells it to stop."""


def perform(payload: bytes) -> bytes:
    match json.loads(payload)["dies"]:
        case "before":
            _die()
        case "inside":
            for module, name in ((versions, "put"), (versions, "create"), (deltacommit, "_merge")):
                setattr(module, name, _soon_dead(getattr(module, name)))
            icebergcommit._Try._write = _soon_dead(icebergcommit._Try._write)  # type: ignore[method-assign]
        case "written":
            icebergcommit._Try._publish = DEAD  # type: ignore[method-assign]
            local.remove = DEAD
        case "after":
            local.remove = DEAD
        case place:
            raise AssertionError(f"no place {place}")
    return versionedcommit.perform(payload)


def _die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


DEAD: Any = _die


def _soon_dead(real: Any) -> Any:
    def call(*arguments: Any) -> Any:
        threading.Thread(target=_die_later, daemon=True).start()
        result = real(*arguments)
        time.sleep(max(INSIDE_MS) / 1000)
        return result

    return call


def _die_later() -> None:
    time.sleep(random.uniform(*INSIDE_MS) / 1000)
    _die()
