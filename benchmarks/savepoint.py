"""How long a savepoint of 200 MB of state takes, with links and with copies, against `cp -r` of the same files.

The checkpoint is laid out as Spark lays out one of a query with RocksDB and 200 shuffle partitions; no Spark runs.
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

from benchmarks.report import Report, Series, Verdict
from firesteel.adapters.spark.streams.snapshots.manifest import SavepointHeader
from firesteel.adapters.spark.streams.snapshots.savepoints import write_savepoint

PARTITIONS = 200
SST_FILES, SST_BYTES = 2, 512 * 1024
"""Of each partition."""
BATCHES = 100
COPY_RATIO_MAX, LINK_RATIO_MAX = 1.2, 0.1
_HEADER = SavepointHeader(job_id="0" * 32, job_name="benchmark", spark_version="", created_ms=0)


def measure(rounds: int) -> Report:
    """Seconds, turn and turn about. Savepoints are on the disk when they are done, so `cp -r` is followed by a sync."""
    with tempfile.TemporaryDirectory(prefix="firesteel-bench-", dir=os.environ.get("TMPDIR")) as folder:
        checkpoint, target = Path(folder) / "checkpoint", Path(folder) / "target"
        _write_checkpoint(checkpoint)
        sides: dict[str, Callable[[], object]] = {
            "cp -r": lambda: _copied(checkpoint, target, sync=False),
            "cp -r, on the disk": lambda: _copied(checkpoint, target, sync=True),
            "savepoint, copies": lambda: _saved(checkpoint, target, link=False),
            "savepoint, links": lambda: _saved(checkpoint, target, link=True),
        }
        taken: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(rounds):
            for side, act in sides.items():
                os.sync()  # what the side before has left is not this one's
                begun = time.perf_counter()
                act()
                taken[side].append((time.perf_counter() - begun) * 1000)
                shutil.rmtree(target)
    series = tuple(Series(side, "ms", tuple(values)) for side, values in taken.items())
    plain, on_disk, copies, links = (each.median for each in series)
    verdicts = (
        Verdict("savepoint, copies / cp -r, on the disk", copies / on_disk, "", at_most=COPY_RATIO_MAX),
        Verdict("savepoint, links / cp -r", links / plain, "", at_most=LINK_RATIO_MAX),
    )
    return Report(case="savepoint", series=series, verdicts=verdicts)


def _copied(checkpoint: Path, target: Path, *, sync: bool) -> None:
    subprocess.run(["cp", "-r", checkpoint, target], check=True)
    if sync:
        subprocess.run(["sync", *(path for path in target.rglob("*") if path.is_file())], check=True)


def _saved(checkpoint: Path, target: Path, *, link: bool) -> None:
    manifest = write_savepoint(str(target), {"result": str(checkpoint)}, _HEADER, link=link)
    assert manifest.size_bytes >= PARTITIONS * SST_FILES * SST_BYTES, "all state is in it"


def _write_checkpoint(root: Path) -> None:
    for directory in ("offsets", "commits", "state/0/_metadata"):
        (root / directory).mkdir(parents=True)
    (root / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    stores = [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": PARTITIONS}]
    (root / "state/0/_metadata/metadata").write_text("v1\n" + json.dumps({"stateStoreInfo": stores}))
    for batch in range(BATCHES):
        (root / f"offsets/{batch}").write_text('v1\n{"conf":{}}\n{"logOffset":0}')
        (root / f"commits/{batch}").write_text('v1\n{"nextBatchWatermarkMs":0}')
    for partition in range(PARTITIONS):
        store = root / f"state/0/{partition}"
        (store / "SSTs").mkdir(parents=True)
        files = [
            {
                "localFileName": f"{each:06}.sst",
                "dfsSstFileName": f"{each:06}-{uuid.uuid4()}.sst",
                "sizeBytes": SST_BYTES,
            }
            for each in range(SST_FILES)
        ]
        for file in files:
            (store / "SSTs" / str(file["dfsSstFileName"])).write_bytes(os.urandom(SST_BYTES))
        with zipfile.ZipFile(store / f"{BATCHES}.zip", "w") as archive:
            archive.writestr("metadata", "v1\n" + json.dumps({"sstFiles": files, "numKeys": 1}))
