"""`python -m tests.network.fakeworker DIRECTORY -D key=value...`: `firesteel taskmanager` with attempts that are files.

Everything but Spark is the real thing. An attempt writes a line `function worker` to DIRECTORY/attempts
when it begins, and runs while there is a file DIRECTORY/hold-<function>. Checkpoints fail while there is a file
DIRECTORY/checkpoint-error, which says why.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

from firesteel.adapters.blob.local import BlobSource
from firesteel.assembly import taskmanager
from firesteel.cli.main import main
from firesteel.model.options import Configuration
from firesteel.testing.backend import FakeTaskBackend, TaskScript

LOOK_S = 0.02


class Shared(dict[str, Any]):
    """Stored results lie where every worker sees them."""

    def __contains__(self, key: object) -> bool:
        return True


class FileScript(TaskScript):
    """A script that other processes write."""

    def __init__(self, directory: Path) -> None:
        super().__init__(stored=Shared())
        self.directory, self.worker = directory, ""

    def backend(self, config: Configuration, work_dir: Path, blobs: BlobSource, **_: object) -> FakeTaskBackend:
        self.worker = work_dir.name
        return super().backend(config, work_dir, blobs)

    async def work(self, functions: tuple[str, ...], gates: list[asyncio.Event]) -> None:
        with open(self.directory / "attempts", "a") as file:
            file.writelines(f"{name} {self.worker}\n" for name in functions)
        while any((self.directory / f"hold-{name}").exists() for name in functions):
            error = self.directory / "checkpoint-error"
            self.checkpoint_error = error.read_text() if error.exists() else ""
            await asyncio.sleep(LOOK_S)


if __name__ == "__main__":
    setattr(taskmanager, "spark_backend", FileScript(Path(sys.argv[1])).backend)  # noqa: B010 - it is not its own
    main(["taskmanager", *sys.argv[2:]])
