"""The real `flink` command line against a firesteel cluster."""

import asyncio
import os
from collections import Counter
from pathlib import Path

import pytest

from firesteel.adapters.spark.streams.snapshots.savepoints import verify
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.testing.backend import TaskScript
from tests.compat.conftest import FLINK_JARS
from tests.integration.cluster.files import HEADER, Files
from tests.rest.cluster import RestCluster, graph, rest_cluster
from tests.sparkjvms import quick_start

OPENED = ("lang", "net", "io", "nio", "util", "text", "lang.reflect", "util.concurrent", "util.concurrent.atomic")
HELD, DONE = graph("lines*2 => counts", "held"), graph("other", "done")
LIMIT_S = 300.0


async def flink(rest: RestCluster, tmp_path: Path, *arguments: str, token: str = "") -> tuple[int, str]:
    """Exit code, and all that was printed."""
    (tmp_path / "conf").mkdir(exist_ok=True)
    (tmp_path / "conf" / "config.yaml").write_text(
        "client.timeout: 60 s\nrest.retry.max-attempts: 2\nrest.retry.delay: 100 ms\n"
    )
    opened = [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in OPENED]
    command = ("java", *opened, "-cp", f"{FLINK_JARS}/*", "org.apache.flink.client.cli.CliFrontend")
    master = rest.server.address.removeprefix("http://")
    headers = {"FLINK_REST_CLIENT_HEADERS": f"Authorization:Bearer {token}"} if token else {}
    process = await asyncio.create_subprocess_exec(
        *command,
        arguments[0],
        *("-m", master),
        *arguments[1:],
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "FLINK_CONF_DIR": str(tmp_path / "conf"), **headers},
    )
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


@pytest.mark.timeout(600)
def test_the_command_line_of_flink(tmp_path: Path) -> None:
    users = tmp_path / "users.yaml"
    users.write_text(
        "users: [{name: olga, roles: [submit, operate], token: o-token}, {name: vera, roles: [view], token: v-token}]"
    )

    async def story() -> None:
        script = TaskScript()
        script.hold("lines")
        bearer = {"Authorization": "Bearer o-token"}
        async with rest_cluster(
            tmp_path, script=script, options={"rest.users-file": str(users)}, headers=bearer, limit_s=LIMIT_S
        ) as rest:

            async def olga(*arguments: str) -> tuple[int, str]:
                return await flink(rest, tmp_path, *arguments, token="o-token")

            await rest.submit(DONE)
            await rest.finish(DONE.job_id)
            await rest.submit(HELD)
            await script.until_running("lines", 2)

            code, out = await olga("list", "-a")
            assert code == 0, out
            assert f"{HELD.job_id} : held (RUNNING)" in out
            assert f"{DONE.job_id} : done (FINISHED)" in out

            code, out = await flink(rest, tmp_path, "list")
            assert code != 0
            assert "This cluster asks who you are" in out
            code, out = await flink(rest, tmp_path, "cancel", HELD.job_id, token="v-token")
            assert code != 0
            assert "vera may not end or save this job" in out

            for arguments in (
                ("savepoint", HELD.job_id, f"file://{tmp_path}/sp"),
                ("stop", "-p", f"file://{tmp_path}/sp", HELD.job_id),
                ("checkpoint", HELD.job_id),
            ):
                code, out = await olga(*arguments)
                assert code != 0, out
                assert f"Job {HELD.job_id} (held) is a batch job: it has no checkpoints" in out, out
            code, out = await olga("savepoint", "-d", "file:///nowhere")
            assert code != 0
            assert "file:///nowhere is no savepoint of firesteel" in out

            code, out = await olga("cancel", "0" * 32)
            assert code != 0
            assert "Job could not be found" in out
            code, out = await olga("cancel", DONE.job_id)
            assert code != 0
            assert "has reached the terminal state FINISHED" in out
            code, out = await olga("cancel", HELD.job_id)
            assert code == 0, out
            assert f"Cancelled job {HELD.job_id}" in out
            assert (await rest.cluster.client.request_job_result(HELD.job_id)).status is JobStatus.CANCELED

    asyncio.run(story())


STREAM = """
@pipeline.source
def lines(spark: SparkSession, input: str) -> DataFrame:
    return spark.readStream.option("maxFilesPerTrigger", 1).text(input)

@pipeline.transform
def counts(lines: DataFrame) -> DataFrame:
    return lines.groupBy("value").count()

@pipeline.sink
def result(counts: DataFrame, output: str):
    def replace(batch, batch_id):
        rows = sorted((row["value"], row["count"]) for row in batch.collect())
        with open(output + ".new", "w") as file:
            file.writelines(f"{word} {count}\\n" for word, count in rows)
        __import__("os").replace(output + ".new", output)
    return counts.writeStream.outputMode("complete").foreachBatch(replace)
"""


class Words:
    """Input and output of a job that counts words."""

    def __init__(self, tmp_path: Path) -> None:
        self.input, self.output = tmp_path / "in", tmp_path / "counted"
        self.input.mkdir()
        self.written: Counter[str] = Counter()
        self._files = 0

    def write(self, *words: str) -> None:
        self._files += 1
        hidden = self.input / f".{self._files}"
        hidden.write_text("\n".join(words) + "\n")
        hidden.rename(self.input / f"{self._files:04}.txt")
        self.written.update(words)

    def counted(self) -> Counter[str]:
        if not self.output.exists():
            return Counter()
        pairs = (line.split() for line in self.output.read_text().splitlines())
        return Counter({word: int(count) for word, count in pairs})

    async def until_counted(self, rest: RestCluster, job_id: JobID) -> None:
        """And committed: until then there is nothing to take a savepoint of."""
        while self.counted() != self.written or not await self._committed(rest, job_id):
            view = await rest.cluster.client.request_job(job_id)
            assert not view.status.is_globally_terminal, view.exceptions
            await asyncio.sleep(0.1)

    async def _committed(self, rest: RestCluster, job_id: JobID) -> bool:
        view = await rest.cluster.client.request_job(job_id)
        return any(query.batch_id >= 0 for each in view.vertices[0].progress for query in each.queries)


class Stream:
    """The job, and what `flink` says of it."""

    def __init__(self, rest: RestCluster, words: Words, tmp_path: Path) -> None:
        self._rest, self._words, self._scratch = rest, words, tmp_path
        self._files = Files(rest.cluster, asyncio.run, tmp_path)
        self._path = self._files.write("")
        self._path.write_text(HEADER.replace('"test"', '"test", mode="streaming"') + STREAM)

    async def begun(self, savepoint: str = "") -> JobID:
        """A job that has counted what was written, from a savepoint on."""
        parameters = {"input": str(self._words.input), "output": str(self._words.output)}
        job_id = await self._files.submit(self._path, parameters, {"execution.state-recovery.path": savepoint})
        await self._words.until_counted(self._rest, job_id)
        return job_id

    async def ended(self, job_id: JobID) -> JobStatus:
        return (await self._rest.cluster.client.request_job_result(job_id)).status

    async def refused(self, *arguments: str) -> str:
        code, out = await flink(self._rest, self._scratch, *arguments)
        assert code != 0, out
        return out

    async def told(self, *arguments: str) -> str:
        code, out = await flink(self._rest, self._scratch, *arguments)
        assert code == 0, out
        return out

    async def place(self, *arguments: str, after: str = "Savepoint completed. Path:") -> str:
        """What stands behind `after` in the line that has it."""
        (line,) = [each for each in (await self.told(*arguments)).splitlines() if after in each]
        return line.partition(after)[2].strip().rstrip(".")


@pytest.mark.timeout(900)
def test_the_command_line_of_flink_and_a_stream(tmp_path: Path) -> None:
    """savepoint, savepoint -d, cancel -s, stop, stop --drain, list: each savepoint is gone on from by the next job."""
    words, directory = Words(tmp_path), f"file://{tmp_path}/savepoints"
    words.write("a", "b", "a")

    async def story() -> None:
        options = {**quick_start(), "cluster.work-dir": str(tmp_path / "work"), "spark.sql.shuffle.partitions": "2"}
        async with rest_cluster(tmp_path, options=options, limit_s=3 * LIMIT_S, with_spark=True) as rest:
            stream = Stream(rest, words, tmp_path)
            job_id = await stream.begun()
            assert f"{job_id} : test (RUNNING)" in await stream.told("list")

            taken = await stream.place("savepoint", job_id, directory)
            assert verify(taken).job_id == job_id
            assert f"Savepoint '{taken}' disposed" in await stream.told("savepoint", "-d", taken)
            assert f"{taken} is no savepoint of firesteel" in await stream.refused("savepoint", "-d", taken)

            words.write("a", "c")
            await words.until_counted(rest, job_id)
            stored = f"Cancelled job {job_id}. Savepoint stored in"
            last = await stream.place("cancel", "-s", directory, job_id, after=stored)
            assert await stream.ended(job_id) is JobStatus.CANCELED

            words.write("b")
            job_id = await stream.begun(last)
            last = await stream.place("stop", "-p", directory, job_id)
            assert await stream.ended(job_id) is JobStatus.FINISHED

            words.write("d")
            job_id = await stream.begun(last)
            words.write("e")  # there when it is told to stop, so it is read
            await stream.place("stop", "--drain", "-p", directory, job_id)
            assert await stream.ended(job_id) is JobStatus.FINISHED
            assert words.counted() == words.written

            out = await stream.told("list", "-a")
            assert f"{job_id} : test (FINISHED)" in out
            assert "No running jobs" in out

    asyncio.run(story())
