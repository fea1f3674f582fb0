"""File sinks through a whole cluster, written and read back by a real Spark: formats, modes, partitions, refusals."""

import asyncio
import errno
import functools
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import msgspec
import pytest

import firesteel as fs
from firesteel.adapters.spark.staged.references import StagedFiles, decode
from firesteel.adapters.spark.worker import sinkoutput
from firesteel.adapters.storage import local, rivals
from firesteel.adapters.storage.sinks import commit_sink
from firesteel.minicluster import MiniCluster
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.model.tasks import Committed, SinkCommit, StagedPart
from firesteel.runtime.ports import TaskFailedError
from tests.integration.cluster.files import Files
from tests.paths import paths_now

pytestmark = pytest.mark.spark
Commit = Callable[[SinkCommit], Awaitable[Committed]]

SOURCE = """
@pipeline.source
def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(
        [("a/b", 1, "x"), (None, 2, "ü;\\n'\\""), ("", 3, "y"), ("k=1 %", 4, None)], "k string, n int, s string"
    )
"""
FORMATS = """
@pipeline.sink
def files(rows: DataFrame, output: str) -> None:
    fs.write_parquet(rows, output + "/parquet", partition_by="k", compression="gzip", **{"parquet.block.size": 1 << 20})
    fs.write_json(rows, output + "/json", "append", ["k"], ignoreNullFields=False)
    fs.write_csv(rows, output + "/csv", "errorIfExists", header=True, sep=";")
    fs.write_text(rows.select("s", "k"), output + "/text", "ignore", ["k"], lineSep="|")
    fs.write_parquet(rows.where("n < 0"), output + "/empty", partition_by=["k"])
    fs.write_csv(rows.where("n < 0"), output + "/empty_csv", header=True)
"""
READ_BACK = """
@pipeline.source
def files(spark: SparkSession, output: str) -> DataFrame:
    def at(format, **options):
        return spark.read.format(format).options(**options).load(output + "/" + format)

    expected = {("a/b", 1, "x"), (None, 2, "ü;\\n'\\""), (None, 3, "y"), ("k=1 %", 4, None)}
    for format in ("parquet", "json"):
        found = {(row.k, row.n, row.s) for row in at(format).collect()}
        assert found == expected, (format, found)
    found = {(row.k, row.n, row.s) for row in at("csv", header=True, sep=";", multiLine=True, inferSchema=True).collect()}
    assert {row[1:] for row in found} == {row[1:] for row in expected}, found
    found = sorted((str(row.k), row.value) for row in at("text", lineSep="|").collect())
    assert found == [("None", "y"), ("None", "ü;\\n'\\""), ("a/b", "x"), ("k=1 %", "")], found
    empty = spark.read.parquet(output + "/empty")
    assert (set(empty.columns), empty.count()) == ({"k", "n", "s"}, 0), empty
    return empty

@pipeline.sink
def result(files: DataFrame, output: str) -> None:
    import contextlib, io
    with contextlib.redirect_stderr(io.StringIO()) as said: fs.write_text(files.select("s"), output + "/text", "ignore")
    assert said.getvalue() == f"write_text: {output}/text exists, so that mode='ignore' writes nothing\\n", said.getvalue()
"""


def test_all_formats_are_written_as_spark_reads_them(files: Files, tmp_path: Path) -> None:
    output = tmp_path / "out put"
    result = files.do(files.run(files.write(SOURCE + FORMATS), {"output": str(output)}))
    assert result.status is JobStatus.FINISHED, result.failure
    assert [(Path(sink.target).name, sink.mode) for sink in result.sinks[:4]] == [
        ("parquet", "overwrite"),
        ("json", "append"),
        ("csv", "error"),
        ("text", "ignore"),
    ]
    assert all((Path(sink.target) / "_SUCCESS").exists() for sink in result.sinks)
    assert {path.name for path in (output / "parquet").glob("k=*")} == {
        *("k=a%2Fb", "k=__HIVE_DEFAULT_PARTITION__", "k=k%3D1 %25")
    }
    assert (next((output / "empty_csv").glob("part-*"))).read_text() == "k;n;s\n".replace(";", ",")
    again = files.do(files.run(files.write(READ_BACK, "read_back.py"), {"output": str(output)}))
    assert again.status is JobStatus.FINISHED, again.failure
    second = files.do(files.run(files.write(SOURCE + FORMATS), {"output": str(output)}))
    assert second.failure is not None
    assert "csv exists and holds data" in second.failure.message
    assert (second.failure.kind, second.failure.vertex) == (FailureKind.NON_RECOVERABLE, "files")
    assert len(list((output / "json").glob("*/part-*"))) == len(list((output / "parquet").glob("*/part-*")))
    files.do(until_gone(tmp_path))


async def until_gone(root: Path) -> None:
    """No staging is left below `root`: what a failed attempt has staged is removed after its failure is told."""
    async with asyncio.timeout(300):
        while any(".firesteel-staging" in names for _, names, _ in os.walk(root)):
            await asyncio.sleep(0.02)


DAYS = """
@pipeline.source
def rows(spark: SparkSession, output: str, first: int, last: int) -> DataFrame:
    new = spark.range(first, last).selectExpr("id % 10 as day", "id as n")
    import os
    return new.unionByName(spark.read.parquet(output).select("day", "n")) if os.path.exists(output) else new

@pipeline.sink
def days(rows: DataFrame, output: str, partitions: str) -> None:
    fs.write_parquet(rows.where("day < 5"), output, partition_by=["day"], overwrite_partitions=partitions)
"""


def test_dynamic_overwrite_replaces_what_was_written_also_when_the_job_reads_it(files: Files, tmp_path: Path) -> None:
    output = tmp_path / "days"

    def run(first: int, last: int, partitions: str = "", setting: str = "static") -> dict[int, int]:
        parameters = {"output": str(output), "first": str(first), "last": str(last), "partitions": partitions}
        settings = {"spark.sql.sources.partitionOverwriteMode": setting}
        result = files.do(files.run(files.write(DAYS), parameters, settings))
        assert result.status is JobStatus.FINISHED, result.failure
        return days(output)

    assert run(0, 10) == {0: 1, 1: 1, 2: 1, 3: 1, 4: 1}
    assert run(10, 20) == {0: 2, 1: 2, 2: 2, 3: 2, 4: 2}
    (output / "day=7").mkdir()
    (output / "day=7" / "part-old.parquet").write_bytes(next((output / "day=1").glob("part-*")).read_bytes())
    assert run(21, 22, "dynamic") == {0: 2, 1: 3, 2: 2, 3: 2, 4: 2, 7: 1}, "day 7 was read and not written"
    assert run(31, 32, setting="DYNAMIC") == {0: 2, 1: 4, 2: 2, 3: 2, 4: 2, 7: 1}
    assert run(41, 42, "static", setting="dynamic") == {0: 2, 1: 5, 2: 2, 3: 2, 4: 2}
    manifests = [json.loads(path.read_text()) for path in (output / "_firesteel" / "commits").iterdir()]
    assert [each["mode"] for each in manifests] == ["overwrite"]


def days(output: Path) -> dict[int, int]:
    """Rows by day, of every partition a reader finds."""
    import pyarrow.parquet

    counted: dict[int, int] = {}
    for path in output.glob("day=*/part-*"):
        day = int(path.parent.name.removeprefix("day="))
        counted[day] = counted.get(day, 0) + pyarrow.parquet.read_metadata(path).num_rows
    return dict(sorted(counted.items()))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ('write_csv(rows, output, delimeter=";")', "csv has no option 'delimeter'; did you mean 'delimiter'?"),
        ('write_parquet(rows, output, mode="overwite")', "did you mean 'overwrite'?"),
        ("write_text(rows, output)", "here it is: k string, n int, s string; make one of them"),
        ('write_parquet(rows, output, overwrite_partitions="dynamic")', "goes with mode='overwrite' and partition_by"),
        ('write_json(rows, "gs://host/x")', "write_json: gs://host/x: firesteel does not write to gs:// yet"),
        ("write_json(rows, output, compression=None)", "option compression=None must be a text"),
        (
            'write_csv(rows.select(F.struct("k").alias("r s")), output)',
            'support the column `r s` of the type "STRUCT<k',
        ),
    ],
)
def test_what_cannot_be_done_is_said_once(files: Files, tmp_path: Path, call: str, says: str) -> None:
    body = SOURCE + f"\n@pipeline.sink\ndef bad(rows: DataFrame, output: str) -> None:\n    fs.{call}\n"
    restarts = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 ms"}
    result = files.do(files.run(files.write(body), {"output": str(tmp_path / "out")}, restarts))
    assert result.failure is not None
    assert says in result.failure.message
    assert (result.restarts, result.failure.vertex, result.failure.location) == (0, "bad", "job.py:14")
    assert not (tmp_path / "out").exists()


TWO_PHASE = """
import json, os, signal, uuid

class Ledger:
    def __init__(self, root):
        self.root = root

    def note(self, what, *more):
        with open(os.path.join(self.root, f"{what}-{uuid.uuid4().hex}"), "w") as file:
            json.dump([os.getpid(), *more], file)

    def write(self, df, context):
        name = f"{context.subtask}-{context.attempt}"
        df.write.csv(f"{self.root}/staged/{name}")
        return {"name": name, "raw": b"\\xff", "rows": df.count() if context.parallelism == 1 else None}

    def commit(self, committables):
        self.note("commit", [each["name"] for each in committables], repr(committables[0]["raw"]))
        os.makedirs(f"{self.root}/visible", exist_ok=True)
        for each in committables:
            if os.path.exists(f"{self.root}/staged/{each['name']}"):
                os.rename(f"{self.root}/staged/{each['name']}", f"{self.root}/visible/{each['name']}")
            if len([name for name in os.listdir(self.root) if name.startswith("commit-")]) == 1:
                os.kill(os.getpid(), signal.SIGKILL)  # half of it is done

    def abort(self, committables):
        self.note("abort", [each["name"] for each in committables], "")

@pipeline.source
def rows(spark: SparkSession) -> DataFrame:
    return spark.range(10)

@pipeline.sink(parallelism=2, inputs={"rows": fs.rebalance()})
def result(rows: DataFrame, root: str, context, succeeds: bool = True) -> None:
    fs.write_two_phase(rows, Ledger(root))
    if context.attempt == 0 and context.subtask == 1 or not succeeds:
        raise RuntimeError("after it has written")
"""


def test_a_users_own_sink_is_committed_by_a_process_with_what_it_wrote(files: Files, tmp_path: Path) -> None:
    restarts = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 ms"}

    def noted(root: Path, what: str) -> list[list[str]]:
        texts = [path.read_text() for path in root.glob(f"{what}-*")]
        found = [json.loads(text) for text in texts if text]  # one that is being written is empty
        assert os.getpid() not in [pid for pid, *_ in found], "user code ran in the worker"
        return [names for _, names, _ in found]

    def run(name: str, **more: str) -> tuple[Path, JobStatus]:
        root = tmp_path / name
        root.mkdir()
        result = files.do(files.run(files.write(TWO_PHASE), {"root": str(root), **more}, restarts))
        return root, result.status

    root, status = run("good")
    assert status is JobStatus.FINISHED
    assert noted(root, "commit") == [["0-0", "1-1"]] * 2
    files.do(until(lambda: noted(root, "abort") == [["1-0"]]))
    lines = [line for path in (root / "visible").glob("*/part-*") for line in path.read_text().split()]
    assert sorted(map(int, lines)) == list(range(10))

    root, status = run("bad", succeeds="false")
    assert status is JobStatus.FAILED
    files.do(until(lambda: ["0-0"] in noted(root, "abort") and not noted(root, "commit")))


TABLE = """
import os, signal

@pipeline.source
def rows(spark: SparkSession, first: int) -> DataFrame:
    return spark.range(first, first + 10).selectExpr("id", "id % 3 as p").repartition(4)

@pipeline.sink(parallelism=2, inputs={"rows": fs.rebalance()})
def result(rows: DataFrame, mode: str, context) -> None:
    fs.write_table(rows, "whole", mode, partition_by="p")
    if (context.attempt, context.subtask) == (0, 1):
        os.kill(os.getpid(), signal.SIGKILL)
"""
TABLE_READ = """
@pipeline.source
def whole(spark: SparkSession) -> DataFrame:
    return spark.table("whole")

@pipeline.result
def found(whole: DataFrame) -> DataFrame:
    return whole.orderBy("id")
"""


class AnswerLost(Exception):
    """Of a commit, or of a part of it: the master does not hear what was done."""


async def files_only(real: Commit, commit: SinkCommit) -> None:
    """The files are where the table has its own, and the catalog was not told."""
    first, *others = [decode(reference, StagedFiles).files for reference in commit.stagings]
    parts = tuple(StagedPart(staging=each.staging, files=each.files) for each in others)
    await asyncio.to_thread(commit_sink, msgspec.structs.replace(first, commit_id=commit.commit_id, parts=parts))
    raise AnswerLost


async def everything(real: Commit, commit: SinkCommit) -> None:
    await real(commit)
    raise AnswerLost


def test_a_table_has_the_rows_of_one_run_whatever_dies(
    files: Files, cluster: MiniCluster, monkeypatch: pytest.MonkeyPatch, work_dir: Path
) -> None:
    """An attempt is killed when it has staged its rows; the commit ends in each phase, and another goes on."""
    restarts = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 ms"}
    phases: list[Callable[[Commit, SinkCommit], Awaitable[Committed | None]]] = []
    commit_really = sinkoutput.SinkOutput.commit

    async def so_far(self: sinkoutput.SinkOutput, commit: SinkCommit) -> Committed:
        real = functools.partial(commit_really, self)
        return await (phases.pop(0)(real, commit) if phases else real(commit)) or Committed()

    monkeypatch.setattr(sinkoutput.SinkOutput, "commit", so_far)

    def write(mode: str, first: int, *stages: Callable[[Commit, SinkCommit], Awaitable[Committed | None]]) -> None:
        phases[:] = stages
        parameters = {"mode": mode, "first": str(first)}
        result = files.do(files.run(files.write(TABLE), parameters, restarts))
        assert (result.status, result.restarts, phases) == (JobStatus.FINISHED, 1, []), result.failure

    def ids() -> list[int]:
        result = files.do(files.run(files.write(TABLE_READ, "read.py")))
        assert result.status is JobStatus.FINISHED, result.failure
        rows = fs.ResultRows(files.do(cluster.client.fetch_result(result.job_id, "found")))
        return [int(each) for each in rows.arrow()["id"].to_pylist()]

    write("append", 0, everything)
    write("append", 100, files_only, everything)
    assert ids() == [*range(10), *range(100, 110)]
    write("overwrite", 50, files_only)
    assert ids() == [*range(50, 60)]
    files.do(until(lambda: not paths_now(work_dir, "**/.firesteel-staging")))


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(300):
        while not holds():
            await asyncio.sleep(0.05)


RIVALS = """
@pipeline.transform
def doubled(rows: DataFrame) -> DataFrame:
    return rows.union(rows)

@pipeline.sink
def plain(rows: DataFrame, output: str) -> None:
    fs.write_parquet(rows, output + "/plain")

@pipeline.sink
def twice(doubled: DataFrame, output: str, where: str) -> None:
    fs.write_parquet(doubled, output + where)
"""
TWICE_IN_ONE = """
@pipeline.sink
def plain(rows: DataFrame, output: str, where: str) -> None:
    fs.write_parquet(rows, output + "/plain")
    fs.write_parquet(rows.union(rows), output + where)
"""


@pytest.mark.parametrize("where", ["/plain", "/plain/n=1"])
@pytest.mark.parametrize("sinks", [RIVALS, TWICE_IN_ONE], ids=["of-two-regions", "in-one-function"])
def test_two_sinks_of_one_target_are_refused_before_either_is_seen(
    files: Files, tmp_path: Path, where: str, sinks: str
) -> None:
    result = files.do(files.run(files.write(SOURCE + sinks), {"output": str(tmp_path), "where": where}))
    assert result.status is JobStatus.FAILED
    assert result.failure is not None
    assert "rows of one would be gone" in result.failure.message
    seen = [name for place in ("plain", "plain/n=1") for name in _names(tmp_path / place) if name.endswith(".parquet")]
    assert not seen


def _names(directory: Path) -> list[str]:
    """What is there, if it is: what was staged may be going just now."""
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return []


def test_a_commit_that_others_keep_from_its_target_says_so_and_goes_on(
    cluster: MiniCluster, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So does one for which no space is left, until there is some."""
    monkeypatch.setattr(local, "LOCK_WAIT_S", 0.1)
    output, keeps_out = tmp_path / "out", 2

    def has_no_room(commit: SinkCommit, settings: Mapping[str, str]) -> Committed:
        nonlocal keeps_out
        if keeps_out:
            keeps_out -= 1
            full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            message = local.advice(full, Path(commit.target))
            raise TaskFailedError(FailureInfo(kind=FailureKind.ENVIRONMENT, message=message, may_pass=True))
        return commit_sink(commit, settings)

    async def finishes(job_id: JobID, reason: str) -> None:
        async with asyncio.timeout(300):
            while reason not in (await cluster.client.request_job(job_id)).reason:
                await asyncio.sleep(0.01)

    body = (
        f"{SOURCE}\n@pipeline.sink\ndef copy(rows: DataFrame, output: str) -> None:\n    fs.write_json(rows, output)\n"
    )
    path, parameters = files.write(body, "waits.py"), {"output": str(output)}
    with local._alone(rivals.lock_name(str(output)), output, "x"):
        held = files.do(files.submit(path, parameters))
        files.do(finishes(held, f"is writing {output}"))
        assert not output.exists()
    assert files.do(cluster.client.request_job_result(held)).status is JobStatus.FINISHED
    monkeypatch.setattr(sinkoutput, "commit_sink", has_no_room)
    full = files.do(files.submit(path, parameters))
    files.do(finishes(full, f"copy can't be committed yet (no space is left for {output}: free some)"))
    assert files.do(cluster.client.request_job_result(full)).status is JobStatus.FINISHED
    assert keeps_out == 0
