"""`firesteel savepoint --verify`: whether what lies there is what was written."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from firesteel.adapters.spark.streams.snapshots.manifest import SavepointHeader
from firesteel.adapters.spark.streams.snapshots.savepoints import read_manifest, write_savepoint
from firesteel.cli.exits import CommandError
from firesteel.cli.main import cli
from tests.adapters.snapshots.checkpoints import FakeCheckpoint


@pytest.fixture
def savepoint(tmp_path: Path) -> Path:
    """Of links, which have no digests yet."""
    query = FakeCheckpoint(tmp_path / "query").commit(3)
    header = SavepointHeader(job_id="0" * 32, job_name="clicks", spark_version="4.3.0", created_ms=0)
    write_savepoint(str(tmp_path / "savepoint"), {"result": str(query.root)}, header)
    return tmp_path / "savepoint"


def verify(path: Path, *more: str) -> Result:
    return CliRunner().invoke(cli, ["savepoint", "--verify", str(path), *more], standalone_mode=False)


def test_what_was_linked_gets_its_digests_and_is_compared_from_then_on(savepoint: Path, tmp_path: Path) -> None:
    assert not read_manifest(str(savepoint)).is_sealed
    result = verify(savepoint)
    assert result.return_value == 0, result.output
    assert "is what was written: " in result.output
    assert read_manifest(str(savepoint)).is_sealed
    state = next(savepoint.glob("queries/0-result/state/0/0/SSTs/*"))
    turned = bytearray(state.read_bytes())
    turned[0] ^= 1
    state.unlink()  # it is a link, whose original stays as it is
    state.write_bytes(turned)
    result = verify(savepoint)
    assert result.return_value == 1
    assert result.output == f"{state.relative_to(savepoint)} is not what was written\n"
    told = json.loads(verify(savepoint, "--json").output)
    assert told == {
        "savepoint": str(savepoint),
        "problems": [f"{state.relative_to(savepoint)} is not what was written"],
    }


def test_what_is_missing_gets_no_digest(savepoint: Path) -> None:
    (savepoint / "queries/0-result/commits/2").unlink()
    result = verify(savepoint)
    assert (result.return_value, result.output) == (1, "queries/0-result/commits/2 is missing\n")
    assert not read_manifest(str(savepoint)).is_sealed


def test_what_is_no_savepoint_is_told(tmp_path: Path) -> None:
    result = verify(tmp_path)
    assert isinstance(result.exception, CommandError)
    assert "is no savepoint of firesteel" in result.exception.message
