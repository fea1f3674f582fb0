"""Checkpoint directories as Spark 4.3 writes them, made without Spark: for what goes wrong at moments that can't be hit."""

import json
import uuid
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

SHUFFLE_PARTITIONS = 2
OPERATOR = {"operatorInfo": {"operatorId": 0, "operatorName": "stateStoreSave"}}
_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@dataclass
class FakeCheckpoint:
    """A query with one operator on RocksDB without changelog, a file source whose log is compacted every third entry, and
    a retention in batches."""

    root: Path
    retention: int = 100
    data_bytes: int = 1000
    query_id: str = "8a9c41a7-8a55-4e5b-9b39-0f6b53a1c1de"
    batch: int = -1
    _named: dict[tuple[int, int], list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        stores = [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": SHUFFLE_PARTITIONS}]
        self._write("metadata", json.dumps({"id": self.query_id}))
        self._write("state/0/_metadata/metadata", f"v1\n{json.dumps({**OPERATOR, 'stateStoreInfo': stores})}")
        self._write("state/0/0/_metadata/schema", "v2 schema")

    def commit(self, batches: int = 1) -> "FakeCheckpoint":
        """Run batches to their end; then delete what is too old."""
        for _ in range(batches):
            self.batch += 1
            self.plan(self.batch)
            self.work(self.batch)
            self._write(f"commits/{self.batch}", 'v1\n{"nextBatchWatermarkMs":0}')
            self._purge()
        return self

    def plan(self, batch: int) -> None:
        """A batch that has begun."""
        settings = {
            "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
            "spark.sql.streaming.stateStore.providerClass": _PROVIDER,
        }
        metadata = {"batchWatermarkMs": 0, "batchTimestampMs": 1000 + batch, "conf": settings}
        name = f"sources/0/{batch}.compact" if (batch + 1) % 3 == 0 else f"sources/0/{batch}"
        self._write(name, "v1\n")
        self._write(f"offsets/{batch}", f'v1\n{json.dumps(metadata)}\n{{"logOffset":{batch}}}')

    def work(self, batch: int) -> None:
        """What its tasks write."""
        for partition in range(SHUFFLE_PARTITIONS):
            store = self.root / f"state/0/{partition}"
            (store / "SSTs").mkdir(parents=True, exist_ok=True)
            name = f"{batch:06}-{uuid.uuid4()}.sst"
            (store / "SSTs" / name).write_bytes(bytes([batch % 256]) * self.data_bytes)
            files = [{"localFileName": name[:10], "dfsSstFileName": name, "sizeBytes": self.data_bytes}]
            with zipfile.ZipFile(store / f"{batch + 1}.zip", "w") as archive:
                archive.writestr("metadata", "v1\n" + json.dumps({"sstFiles": files, "numKeys": 1}))
            (store / f".{batch + 1}.zip.crc").write_bytes(b"crc")
            self._named[partition, batch + 1] = [name]

    def _purge(self) -> None:
        oldest = self.batch - self.retention + 1
        for directory in ("offsets", "commits"):
            for path in (self.root / directory).iterdir():
                if int(path.name) < oldest:
                    path.unlink()
        for (partition, version), names in list(self._named.items()):
            if version <= oldest:
                store = self.root / f"state/0/{partition}"
                (store / f"{version}.zip").unlink(missing_ok=True)
                for name in names:
                    (store / "SSTs" / name).unlink(missing_ok=True)

    def _write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def tree(root: Path) -> dict[str, bytes]:
    """Every file below a directory, also hidden ones."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
