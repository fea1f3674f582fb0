"""fs.fan_out in a job: several outputs of one query, each with each row once, whatever fails, is killed or gone back to."""

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

from firesteel.minicluster import MiniCluster
from firesteel.model.states import JobStatus
from tests.integration.cluster.conftest import Do, mini_cluster
from tests.integration.cluster.files import Files
from tests.integration.cluster.test_streams import NOW, Stream, Victims, until, until_it_runs_again, write_stream
from tests.integration.spark.test_caching import released, shown

pytestmark = [pytest.mark.spark, pytest.mark.streams]

WORDS = """
@pipeline.source
def lines(spark: SparkSession, input: str) -> DataFrame:
    return spark.readStream.option("maxFilesPerTrigger", 1).text(input)
"""
TWO = (
    WORDS
    + """
@pipeline.sink
def result(lines: DataFrame, output: str, short: str):
    return fs.fan_out(lines, {
        "all": fs.to_files(output + "/all"),
        "short": fs.to_files(short, rows=lambda batch: batch.where("length(value) < 2")),
    })
"""
)
FAILS = (
    WORDS
    + """
def first_time(mark, name):
    import pathlib
    marked = pathlib.Path(mark, name)
    if marked.exists():
        return False
    marked.touch()
    return True

@pipeline.transform
def noted(lines: DataFrame, marks: str) -> DataFrame:
    @F.udf("string")
    def note(value):
        with open(marks + "/computed", "a") as file:
            file.write(value + "\\n")
        return value
    return lines.select(note("value").alias("value"))

@pipeline.sink
def result(noted: DataFrame, output: str, marks: str):
    @F.udf("string")
    def once(value):
        if value == "b" and first_time(marks, "failed"):
            raise ValueError("this once")
        return value

    def call(batch, number):
        import os, signal
        if "d" in {row.value for row in batch.collect()} and first_time(marks, "killed"):
            os.kill(os.getpid(), signal.SIGKILL)
        with open(marks + "/called", "a") as file:
            file.write(f"{number}\\n")

    return fs.fan_out(noted, {
        "all": fs.to_files(output + "/all"),
        "once": fs.to_files(output + "/once", rows=lambda batch: batch.select(once("value").alias("value"))),
        "called": call,
    })
"""
)
WAITS = (
    WORDS
    + """
@pipeline.sink
def result(lines: DataFrame, output: str):
    def wait(batch, number):
        import time
        batch.count()
        time.sleep(600)

    return fs.fan_out(lines, {"all": fs.to_files(output + "/all"), "waits": wait})
"""
)
SOON = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "100 ms"}
SOON |= {"restart-strategy.fixed-delay.attempts": "5"}


@pytest.fixture(scope="module")
def cluster(do: Do, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniCluster]:
    settings = {"taskmanager.numberOfTaskSlots": "1", "spark.sql.shuffle.partitions": "2"}
    settings |= {"spark.ui.enabled": "true", "spark.ui.port": "0"}
    with mini_cluster(do, tmp_path_factory.mktemp("fan-out"), settings) as made:
        yield made


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    return Stream(tmp_path / "stream")


def read(output: Path) -> Counter[str]:
    """Words of files that readers see; one that is replaced while they are read is looked for again."""
    while True:
        try:
            found = [pyarrow.parquet.read_table(str(file)) for file in output.glob("batch-*.parquet")]
        except FileNotFoundError:
            continue
        return Counter(word for table in found for word in table.column("value").to_pylist())


def short(words: Counter[str]) -> Counter[str]:
    return Counter({word: count for word, count in words.items() if len(word) < 2})


def test_a_batch_is_computed_once_and_no_failure_doubles_it(files: Files, stream: Stream, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    for word in "abcde":
        stream.write(word)
    parameters = {**stream.parameters, "marks": str(marks)}
    result = files.do(files.run(write_stream(files, FAILS), parameters, NOW | SOON))
    assert result.status is JobStatus.FINISHED, result.failure
    assert (marks / "failed").exists()
    assert (marks / "killed").exists()
    for output in (stream.output / "all", stream.output / "once"):
        assert read(output) == stream.written
        assert not (output / ".firesteel-staging").exists()
    computed = Counter((marks / "computed").read_text().split())
    assert computed == Counter({"a": 1, "b": 2, "c": 1, "d": 2, "e": 1}), "once a try, for three that read it"
    called = (marks / "called").read_text().split()
    assert called == ["0", "1", "2", "3", "4"], "nothing is called for a batch that others could not write"


@pytest.mark.parametrize("victim", ["task process", "jvm"])
def test_outputs_survive_what_is_killed(do: Do, stream: Stream, tmp_path: Path, victim: str) -> None:
    fast = {"restart-strategy.exponential-delay.initial-backoff": "100 ms", "spark.sql.shuffle.partitions": "2"}
    outputs = stream.output / "all", tmp_path / "short"
    with mini_cluster(do, tmp_path / "work", fast) as made:
        files = Files(made, do, tmp_path)

        async def story() -> None:
            job_id = await files.submit(write_stream(files, TWO), {**stream.parameters, "short": str(outputs[1])})
            for number in range(4):
                stream.write("a", f"w{number}")
            await until(lambda: bool(read(outputs[1])), "it writes")
            killed = Victims.jvm(tmp_path / "work") if victim == "jvm" else Victims.task_process(f"{job_id}/0-0")
            assert killed
            for process in killed:
                process.send_signal(signal.SIGKILL)
            for number in range(4):
                stream.write("b", f"x{number}")
            if victim == "jvm":  # the queries run on without their task process, and another one follows them
                await until_it_runs_again(files, job_id)
            await until(lambda: read(outputs[0]) == stream.written, "one output is whole")
            await until(lambda: read(outputs[1]) == short(stream.written), "and so is the other")
            await files.cluster.client.cancel_job(job_id)
            await files.cluster.client.request_job_result(job_id)

        files.do(story())
    assert (read(outputs[0]), read(outputs[1])) == (stream.written, short(stream.written))


def test_an_older_savepoint_goes_on_in_the_same_output_and_in_a_new_one(
    files: Files, stream: Stream, tmp_path: Path
) -> None:
    """With other batches: what was one file a batch is read at once."""
    stream.write("a", "first")
    stream.write("b", "second")
    client, path = files.cluster.client, write_stream(files, TWO)

    async def story() -> None:
        job_id = await files.submit(path, {**stream.parameters, "short": str(tmp_path / "old")})
        await until(lambda: read(tmp_path / "old") == short(stream.written), "the first files are read")
        before = await client.take_savepoint(job_id, str(tmp_path / "saved"))
        had = read(tmp_path / "old")
        for word in "cde":
            stream.write(word, f"later-{word}")
        await until(lambda: read(tmp_path / "old") == short(stream.written), "the later ones, too")
        await client.cancel_job(job_id)
        await client.request_job_result(job_id)
        write_stream(files, TWO.replace('"maxFilesPerTrigger", 1', '"maxFilesPerTrigger", 100'))
        again = {**stream.parameters, "short": str(tmp_path / "new")}
        result = await files.run(path, again, {"execution.state-recovery.path": before, **NOW})
        assert result.status is JobStatus.FINISHED, result.failure
        assert read(stream.output / "all") == stream.written
        assert read(tmp_path / "old") == short(stream.written), "nobody has written there any more"
        new = read(tmp_path / "new")
        assert new >= short(stream.written) - had, "what came after the savepoint"
        assert new <= short(stream.written)
        assert max(new.values()) == 1

    files.do(story())


def test_a_batch_that_is_cut_off_stays_in_no_cache(files: Files, stream: Stream) -> None:
    """Whoever would have released it was killed."""
    stream.write("a", "b")
    client = files.cluster.client

    async def story() -> None:
        job_id = await files.submit(write_stream(files, WAITS), stream.parameters)
        await until((stream.output / "all/.firesteel-staging").exists, "the batch is written")
        await shown()
        await client.cancel_job(job_id)
        result = await client.request_job_result(job_id)
        assert result.status is JobStatus.CANCELED
        await released()

    files.do(story())
    assert read(stream.output / "all") == Counter(), "the batch was not whole"


@pytest.mark.parametrize(
    "writer",
    ["fs.fan_out(lines, {'all': fs.to_files(output + '/all'), 'own': own})", "lines.writeStream.foreachBatch(own)"],
)
def test_functions_of_batches_have_no_commit_of_a_job(files: Files, stream: Stream, writer: str) -> None:
    """What a batch sink stages would be written at once there, and again with the batch."""
    body = (
        f"def own(batch, number):\n        fs.write_parquet(batch, output + '/own', mode='append')\n    return {writer}"
    )
    stream.write("a")
    pipeline = WORDS + f"@pipeline.sink\ndef result(lines: DataFrame, output: str):\n    {body}\n"
    result = files.do(files.run(write_stream(files, pipeline), stream.parameters, NOW))
    assert result.failure is not None
    assert "write it with batch.write" in result.failure.message
    assert not list(stream.output.glob("own/*"))
