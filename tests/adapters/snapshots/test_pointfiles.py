"""Which files a point consists of, by recordings of checkpoints that Spark 4.3 has written.

`FIRESTEEL_TEST_RECORD_POINTS=DIRECTORY FIRESTEEL_TEST_ALL_STATES=1 pytest tests/integration/spark/test_snapshots.py` makes them.
"""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from firesteel.adapters.spark.streams.snapshots.checkpointlog import commit_entry, offset_entry, operator
from firesteel.adapters.spark.streams.snapshots.listing import Listing
from firesteel.adapters.spark.streams.snapshots.pointfiles import PointFacts, PointFile, operators_of, point_files
from firesteel.adapters.spark.streams.snapshots.storefiles import Gone

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*-2.json"))


def recorded(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def files_of(record: dict[str, Any], without: str = "") -> list[PointFile]:
    """Of the recorded point; `without` a file."""
    directories = {
        directory: tuple(name for name in names if f"{directory}/{name}".lstrip("/") != without)
        for directory, names in record["listing"].items()
    }
    listing, texts, batch = Listing(directories), record["texts"], record["batch"]
    offsets, commits = f"offsets/{batch}", f"commits/{batch}"
    operators = {name: operator(texts[path], path) for name in operators_of(listing) for path in [_metadata_of(name)]}
    facts = PointFacts(batch, offset_entry(texts[offsets], offsets), commit_entry(texts[commits], commits), operators)
    lineages = {path: tuple(map(tuple, items)) for path, items in record["lineages"].items()}
    return point_files(listing, facts, lineages.get)


def _metadata_of(name: str) -> str:
    return f"state/{name}/_metadata/metadata"


def test_every_way_to_keep_state_is_recorded() -> None:
    names = [path.stem for path in GOLDEN]
    assert names == ["changelog-2", "changelog-ids-2", "hdfs-2", "rocksdb-2", "rocksdb-ids-2"]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_the_files_are_those_that_were_recorded(path: Path) -> None:
    record = recorded(path)
    assert sorted(file.path for file in files_of(record) if file.needed) == record["needed"]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_newer_and_abandoned_files_are_left_out(path: Path) -> None:
    record = recorded(path)
    batch, taken = record["batch"], {file.path for file in files_of(record)}
    for directory in ("offsets", "commits"):
        assert {int(name.partition("/")[2]) for name in taken if name.startswith(f"{directory}/")} <= set(
            range(batch + 1)
        )
    versions = [name for name in taken if name.startswith("state/") and name.rpartition("/")[2][0].isdigit()]
    assert max(int(name.rpartition("/")[2].split(".")[0].split("_")[0]) for name in versions) == batch + 1


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_no_file_of_the_state_can_be_missing(path: Path) -> None:
    """But for Spark's own checksums, without which a file is just not checked, and schemas."""
    record = recorded(path)
    tried = 0
    for name in record["needed"]:
        if name.startswith("state/") and "/_metadata/" not in name and not name.endswith(".crc"):
            with contextlib.suppress(Gone):
                instead = {file.path for file in files_of(record, without=name) if file.needed}
                assert instead - set(record["needed"]), "older files, from which the version follows as well"
            tried += 1
    assert tried >= 4, "two operators with two partitions each"
