"""How long a savepoint of 200 MB and of 2 GB of state takes, with links and with copies, against `cp -r` of the same files.

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
SST_FILES = 2
"""Of each partition."""
SST_BYTES = {"200 MB": 512 * 1024, "2 GB": 5 * 1024 * 1024}
"""Of each of them, by what they come to."""
BATCHES = 100
COPY_RATIO_MAX, LINK_RATIO_MAX = 1.2, 0.1
_HEADER = SavepointHeader(job_id="0" * 32, job_name="benchmark", spark_version="", created_ms=0)


def measure(rounds: int) -> Report:
    """Milliseconds, of the smaller state first."""
    series: list[Series] = []
    verdicts: list[Verdict] = []
    for size, sst_bytes in SST_BYTES.items():
        plain, on_disk, copies, links = taken = _measured(size, sst_bytes, rounds)
        series += taken
        verdicts += (
            Verdict(
                f"savepoint of {size}, copies / cp -r, on the disk", copies.median / on_disk.median, "", COPY_RATIO_MAX
            ),
            Verdict(f"savepoint of {size}, links / cp -r", links.median / plain.median, "", LINK_RATIO_MAX),
        )
    return Report(case="savepoint", series=tuple(series), verdicts=tuple(verdicts))


def _measured(size: str, sst_bytes: int, rounds: int) -> list[Series]:
    """Turn and turn about. Savepoints are on the disk when they are done, so `cp -r` is followed by a sync."""
    with tempfile.TemporaryDirectory(prefix="firesteel-bench-", dir=os.environ.get("TMPDIR")) as folder:
        checkpoint, target = Path(folder) / "checkpoint", Path(folder) / "target"
        _write_checkpoint(checkpoint, sst_bytes)
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
    return [Series(f"{side}, {size}", "ms", tuple(values)) for side, values in taken.items()]


def _copied(checkpoint: Path, target: Path, *, sync: bool) -> None:
    subprocess.run(["cp", "-r", checkpoint, target], check=True)
    if sync:
        subprocess.run(["sync", *(path for path in target.rglob("*") if path.is_file())], check=True)


def _saved(checkpoint: Path, target: Path, *, link: bool) -> None:
    manifest = write_savepoint(str(target), {"result": str(checkpoint)}, _HEADER, link=link)
    assert manifest.size_bytes >= PARTITIONS * SST_FILES * min(SST_BYTES.values()), "all state is in it"


def _write_checkpoint(root: Path, sst_bytes: int) -> None:
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
                "sizeBytes": sst_bytes,
            }
            for each in range(SST_FILES)
        ]
        for file in files:
            (store / "SSTs" / str(file["dfsSstFileName"])).write_bytes(os.urandom(sst_bytes))
        with zipfile.ZipFile(store / f"{BATCHES}.zip", "w") as archive:
            archive.writestr("metadata", "v1\n" + json.dumps({"sstFiles": files, "numKeys": 1}))
