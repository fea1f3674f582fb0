"""An output that a sink has staged: what a commit is given."""

import uuid

from firesteel.adapters.storage.hdfssinks import HdfsSinks
from firesteel.model.ids import JobVertexID
from firesteel.model.tasks import SinkCommit


def staged(store: HdfsSinks, target: str, mode: str, number: int, names: tuple[str, ...]) -> SinkCommit:
    """Files of these names with `new NUMBER` in each, staged for `target` by the job of that number."""
    staging = store.staging(target, f"{number:032x}", "0-0", "0")
    store.prepare(target, staging)
    for name in names:
        store.write(staging, name, f"new {number}".encode())
    return SinkCommit(
        commit_id=uuid.UUID(int=number << 64 | number).hex,
        vertex_id=JobVertexID("v"),
        function="result",
        format="parquet",
        mode=mode,
        target=target,
        staging=staging,
        files=names,
    )
