"""Records that outlive the process that wrote them have the form of their version, and what was written so is read."""

import ast
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from firesteel.adapters.ha.objectregister import LeaderObject
from firesteel.adapters.ha.zookeeper import LeaderNode
from firesteel.adapters.spark.exchange.resultfiles import Manifest
from firesteel.adapters.spark.sinks.jdbccommit import StagedTable
from firesteel.adapters.spark.staged.references import StagedFiles, StagedRows, WrittenByUser
from firesteel.adapters.storage import local
from firesteel.adapters.storage.manifest import draft_manifest, publish_manifest
from firesteel.cli.background import Recorded
from firesteel.cli.clusters.hosts import HostCluster, Placed
from firesteel.cli.clusters.ssh import Ssh
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import Artifact
from firesteel.model.stored import StoredRecord
from firesteel.rest.jars import UploadedJar
from firesteel.runtime.register import LeaderRecord
from tests.core.graphs import commit_of
from tests.tidy.source import parsed, python_files

GOLDEN = Path(__file__).parent / "golden"
FORMAT = "stored_records_v1.txt"
JOB = JobID("0" * 32)
LEADER = LeaderRecord(name="jm-1", node="machine", host="10.0.0.1", port=6123, rest="http://10.0.0.1:8081")
SAMPLES: tuple[StoredRecord, ...] = (
    LEADER,
    LeaderObject(epoch=7, moment=3, record=LEADER),
    LeaderNode(epoch=7, record=LEADER),
    UploadedJar(id=f"{JOB}_a.py", name="a.py", sha256="ab", size_bytes=1, uploaded_ms=2, owner="ann", entries=("p",)),
    Manifest(schema='{"type":"struct"}', voids=(1,), files=(("part-0",), ())),
    StagedFiles(
        table="spark_catalog.default.t",
        location="/warehouse/t",
        is_new=True,
        schema='{"type":"struct"}',
        partition_columns=("day",),
        options={"compression": "zstd"},
        files=commit_of("sink"),
    ),
    StagedRows(
        table="`lake`.`db`.`t`",
        format="iceberg",
        is_new=False,
        schema='{"type":"struct"}',
        partition_columns=("day",),
        key=("id",),
        options={"fanout-enabled": "true"},
        settings={"spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog"},
        files=commit_of("sink"),
    ),
    StagedTable(
        url="jdbc:postgresql://h/d",
        target="t",
        staging="_firesteel_1",
        columns=(("c0", "id"),),
        key=("id",),
        properties={"password": "env:PASSWORD"},
    ),
    WrittenByUser(
        job_id=JOB,
        artifacts=(Artifact(name="code", kind="code", sha256="ab", size_bytes=1),),
        sink=b"pickled",
        committable=b"\xa1x",
    ),
    Recorded(role="taskmanager", pid=7, started=1.5, log="log/taskmanager.log", where="w1", definitions=("a=b",)),
    HostCluster(placed=[Placed(host="h", role="taskmanager", count=2)], ssh=Ssh(options=["-q"], python="python3")),
)


def test_every_kind_of_record_has_a_sample() -> None:
    classes = [
        node for file in python_files("src") for node in ast.walk(parsed(file)) if isinstance(node, ast.ClassDef)
    ]
    kinds = {node.name for node in classes if any(ast.unparse(base) == "StoredRecord" for base in node.bases)}
    assert {type(sample).__name__ for sample in SAMPLES} == kinds


def test_the_form_of_the_records(golden: Callable[[str, str], None]) -> None:
    golden(FORMAT, "".join(f"{type(sample).__name__} {msgspec.json.encode(sample).decode()}\n" for sample in SAMPLES))


def test_what_was_written_in_this_form_is_read() -> None:
    lines = (GOLDEN / FORMAT).read_text().splitlines()
    for sample, line in zip(SAMPLES, lines, strict=True):
        kind, _, text = line.partition(" ")
        assert kind == type(sample).__name__
        assert msgspec.json.decode(text, type=type(sample)) == sample


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)
def test_another_version_is_refused_and_both_are_named(sample: StoredRecord) -> None:
    later = msgspec.json.encode(sample).replace(b'"version":1', b'"version":2', 1)
    with pytest.raises(msgspec.ValidationError, match="it has format version 2, and this firesteel reads 1"):
        msgspec.json.decode(later, type=type(sample))


def test_the_record_of_a_commit_at_its_target(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    """For readers who want the whole of a commit."""
    draft_manifest(local.TREE, commit_of("sink"), str(tmp_path), ["part-0"])
    publish_manifest(local.TREE, commit_of("sink"), str(tmp_path))
    (file,) = (tmp_path / "_firesteel" / "commits" / "sink").iterdir()
    golden("sink_manifest_v1.json", file.read_text() + "\n")
