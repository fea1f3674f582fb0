"""How long a savepoint of 200 MB and of 2 GB of state takes, with links and with copies, against `cp -r` of the same files.

The checkpoint is laid out as Spark lays out one of a query with RocksDB; no Spark runs. Directories can't be linked, so a
savepoint of many small stores takes the time of making them: "directories and links alone" is that time, with nothing else.
On a file system whose inode tables are nearly full that is ten times what it is on a fresh one: TMPDIR says where.
"""

import json
import os
import shutil
import subprocess
import tempfile
import time
import uuid
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.report import Report, Series, Verdict
from firesteel.adapters.spark.streams.snapshots.manifest import SavepointHeader
from firesteel.adapters.spark.streams.snapshots.savepoints import write_savepoint


class Layout(NamedTuple):
    """A state of `partitions` stores, each of SST_FILES files of `sst_bytes`."""

    name: str
    partitions: int
    sst_bytes: int


LAYOUTS = (
    Layout("200 MB in 20 stores", 20, 5 * 1024 * 1024),
    Layout("200 MB in 200 stores", 200, 512 * 1024),
    Layout("2 GB in 200 stores", 200, 5 * 1024 * 1024),
)
"""200 is Spark's own number of shuffle partitions, which is for clusters."""
SST_FILES = 2
BATCHES = 100
COPY_RATIO_MAX, LINK_RATIO_MAX = 1.2, 0.1
_HEADER = SavepointHeader(job_id="0" * 32, job_name="benchmark", spark_version="", created_ms=0)


def measure(rounds: int) -> Report:
    """Milliseconds, of the smaller state first."""
    series: list[Series] = []
    verdicts: list[Verdict] = []
    for layout in LAYOUTS:
        _, on_disk, copies, links, _ = taken = _measured(layout, rounds)
        series += taken
        copied, linked = copies.median / on_disk.median, links.median / on_disk.median
        verdicts += (
            Verdict(f"savepoint of {layout.name}, copies / cp -r, on the disk", copied, "", COPY_RATIO_MAX),
            Verdict(f"savepoint of {layout.name}, links / cp -r, on the disk", linked, "", LINK_RATIO_MAX),
        )
    return Report(case="savepoint", series=tuple(series), verdicts=tuple(verdicts))


def _measured(layout: Layout, rounds: int) -> list[Series]:
    """Turn and turn about. Savepoints are on the disk when they are done, also what they link, so they are compared with a `cp -r`
    that is followed by a sync."""
    with tempfile.TemporaryDirectory(prefix="firesteel-bench-", dir=os.environ.get("TMPDIR")) as folder:
        checkpoint, target = Path(folder) / "checkpoint", Path(folder) / "target"
        _write_checkpoint(checkpoint, layout)
        sides: dict[str, Callable[[], object]] = {
            "cp -r": lambda: _copied(checkpoint, target, sync=False),
            "cp -r, on the disk": lambda: _copied(checkpoint, target, sync=True),
            "savepoint, copies": lambda: _saved(checkpoint, target, layout, link=False),
            "savepoint, links": lambda: _saved(checkpoint, target, layout, link=True),
            "directories and links alone": lambda: _linked(checkpoint, target),
        }
        taken: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(rounds):
            for side, act in sides.items():
                os.sync()  # what the side before has left is not this one's
                begun = time.perf_counter()
                act()
                taken[side].append((time.perf_counter() - begun) * 1000)
                shutil.rmtree(target)
    return [Series(f"{side}, {layout.name}", "ms", tuple(values)) for side, values in taken.items()]


def _copied(checkpoint: Path, target: Path, *, sync: bool) -> None:
    subprocess.run(["cp", "-r", checkpoint, target], check=True)
    if sync:
        subprocess.run(["sync", *(path for path in target.rglob("*") if path.is_file())], check=True)


def _linked(checkpoint: Path, target: Path) -> None:
    """The same tree, unsynced and unchecked."""
    shutil.copytree(checkpoint, target, copy_function=os.link)


def _saved(checkpoint: Path, target: Path, layout: Layout, *, link: bool) -> None:
    manifest = write_savepoint(str(target), {"result": str(checkpoint)}, _HEADER, link=link)
    assert manifest.size_bytes >= layout.partitions * SST_FILES * layout.sst_bytes, "all state is in it"


def _write_checkpoint(root: Path, layout: Layout) -> None:
    for directory in ("offsets", "commits", "state/0/_metadata"):
        (root / directory).mkdir(parents=True)
    (root / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    stores = [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": layout.partitions}]
    (root / "state/0/_metadata/metadata").write_text("v1\n" + json.dumps({"stateStoreInfo": stores}))
    for batch in range(BATCHES):
        (root / f"offsets/{batch}").write_text('v1\n{"conf":{}}\n{"logOffset":0}')
        (root / f"commits/{batch}").write_text('v1\n{"nextBatchWatermarkMs":0}')
    for partition in range(layout.partitions):
        store = root / f"state/0/{partition}"
        (store / "SSTs").mkdir(parents=True)
        files = [
            {
                "localFileName": f"{each:06}.sst",
                "dfsSstFileName": f"{each:06}-{uuid.uuid4()}.sst",
                "sizeBytes": layout.sst_bytes,
            }
            for each in range(SST_FILES)
        ]
        for file in files:
            (store / "SSTs" / str(file["dfsSstFileName"])).write_bytes(os.urandom(layout.sst_bytes))
        with zipfile.ZipFile(store / f"{BATCHES}.zip", "w") as archive:
            archive.writestr("metadata", "v1\n" + json.dumps({"sstFiles": files, "numKeys": 1}))
