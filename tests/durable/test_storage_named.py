"""What is wrong with the storage of a cluster is said when a master starts: in a sentence that names the option."""

from collections.abc import Callable
from pathlib import Path

import pytest

from firesteel.cli.main import exit_code

LEADER = "default/leader/000000000001.leader"


def a_file(storage: Path) -> None:
    storage.touch()


def a_file_for_a_directory(storage: Path) -> None:
    (storage / "default").mkdir(parents=True)
    (storage / "default" / "jobs").touch()


def a_directory_for_a_file(storage: Path) -> None:
    (storage / LEADER).mkdir(parents=True)


@pytest.mark.parametrize("spoil", [a_file, a_file_for_a_directory, a_directory_for_a_file])
def test_a_storage_that_can_not_be_used(
    tmp_path: Path, spoil: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    storage = tmp_path / "storage"
    spoil(storage)
    options = ("high-availability.type=filesystem", f"high-availability.storageDir={storage}", "rest.port=0")
    given = [part for each in (*options, "jobmanager.rpc.port=0") for part in ("-D", each)]
    assert exit_code(["jobmanager", *given]) == 3
    said = capsys.readouterr().err
    assert f"firesteel: high-availability.storageDir {storage} can't be used: {storage}" in said
    assert "Traceback" not in said
