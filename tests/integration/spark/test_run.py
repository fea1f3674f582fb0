"""Attempts that succeed: what reaches the user's code, and what comes out."""

import asyncio
import contextlib
import gc
import os
import threading
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet
import pytest

from firesteel.adapters.spark.worker.attempt import AttemptRun
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.adapters.storage.sinkstore import STAGING_NAME
from firesteel.runtime.background import BackgroundTasks
from firesteel.runtime.ports import TaskFailedError
from tests.integration.spark.jobs import JobMaker, Observed, Runner, deployment, function, run, settled
from tests.processes import descendants

pytestmark = pytest.mark.spark

WORD_COUNT = """
from firesteel.adapters.spark.sinks.files import write_parquet
from pyspark.sql import functions as F

def lines(spark, input):
    return spark.read.text(input)

def counts(lines):
    return lines.select(F.explode(F.split("value", " ")).alias("word")).groupBy("word").count()

def result(counts, output):
    write_parquet(counts, output)
"""
WORD_COUNT_FUNCTIONS = (
    function("lines", wants_session=True, parameters=("input",)),
    function("counts", "transform", ["lines"]),
    function("result", "sink", ["counts"], parameters=("output",)),
)


def rows(path: Path) -> list[dict[str, object]]:
    table = pyarrow.parquet.ParquetDataset(path).read()
    return sorted(table.to_pylist(), key=repr)


def test_a_word_count_is_visible_only_when_committed(
    backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path
) -> None:
    (tmp_path / "in.txt").write_text("a b a\nc a\n")
    target = tmp_path / "out"
    parameters = {"input": str(tmp_path / "in.txt"), "output": str(target)}
    job, observed = jobs.job(WORD_COUNT, WORD_COUNT_FUNCTIONS, parameters=parameters), Observed()
    outcome = do(run(backend, job, observed=observed))
    assert not target.exists()
    (commit,) = outcome.sinks
    assert (commit.rows, commit.function, commit.mode) == (3, "result", "overwrite")
    assert commit.size_bytes > 0
    assert outcome.io is not None
    assert outcome.io.bytes_read == -1, "nobody counts what a source reads"
    assert outcome.io.spark_ms > 0
    assert outcome.io.memory_peak_bytes > 10 << 20
    for _ in range(2):
        do(backend.commit(commit))
    assert {row["word"]: row["count"] for row in rows(target)} == {"a": 3, "b": 1, "c": 1}
    assert (target / "_SUCCESS").exists()
    assert sorted(os.listdir(tmp_path)) == ["code-1.zip", "in.txt", "out"]
    assert observed.running == 1
    assert observed.progress
    assert observed.progress[-1].function == "result"


def test_a_job_is_released_when_its_attempts_are_cleared_up(
    backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in.txt").write_text("a\n")
    parameters = {"input": str(tmp_path / "in.txt"), "output": str(tmp_path / "out")}
    job = jobs.job(WORD_COUNT, WORD_COUNT_FUNCTIONS, parameters=parameters)

    async def story() -> None:
        close, may_go_on, releasing = backend._close_sessions, asyncio.Event(), BackgroundTasks()

        async def close_late(*run: Any, **how: Any) -> None:
            await may_go_on.wait()
            await close(*run, **how)

        monkeypatch.setattr(backend, "_close_sessions", close_late)
        await run(backend, job, observed=Observed())
        release = releasing.start(backend.release_job(job.graph.job_id), "release")
        assert not (await asyncio.wait({release}, timeout=0.3))[0]
        may_go_on.set()
        await releasing.join()

    do(story())
    assert not (backend._work_dir / "attempts" / job.graph.job_id).exists()


def test_an_attempt_makes_no_directories_where_others_have_cleared_up(
    backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker has died, and another one has removed what was there."""
    monkeypatch.setattr("firesteel.adapters.spark.worker.backend.make_directories", lambda task: None)
    parameters = {"input": str(tmp_path / "in.txt"), "output": str(tmp_path / "out")}
    job = jobs.job(WORD_COUNT, WORD_COUNT_FUNCTIONS, parameters=parameters)
    with pytest.raises(TaskFailedError):
        do(run(backend, job))
    assert not [path for name in ("attempts", "logs") for path in (backend._work_dir / name).glob(job.graph.job_id)]


def test_regions_meet_over_stored_results_with_any_column_names(
    backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path
) -> None:
    source = """
from firesteel.adapters.spark.sinks.files import write_parquet

def odd(spark):
    return spark.sql("select id as `a.b`, id as `x`, id + 1 as `x`, named_struct('p q', id) as `s t` from range(5)")

def bare(spark):
    return spark.range(7).select()

def result(odd, bare, output):
    assert odd.columns == ["a.b", "x", "x", "s t"], odd.columns
    assert bare.columns == [] and bare.count() == 7
    write_parquet(odd.toDF("a", "b", "c", "d"), output)
"""
    functions = (
        function("odd", wants_session=True),
        function("bare", wants_session=True),
        function("result", "sink", ["odd", "bare"], parameters=("output",)),
    )
    job = jobs.job(source, functions, parameters={"output": str(tmp_path / "out")}, blocking=("odd", "bare"))
    partitions = []
    for region, name in enumerate(("odd", "bare")):
        outcome = do(run(backend, job, deployment(job, [name], region=region)))
        assert not outcome.sinks
        partitions += outcome.partitions
    assert [(partition.rows, partition.columns) for partition in partitions] == [
        (5, ("a.b", "x", "x", "s t")),
        (7, ()),
    ]
    outcome = do(run(backend, job, deployment(job, ["result"], region=2, inputs=partitions)))
    do(backend.commit(outcome.sinks[0]))
    assert rows(tmp_path / "out")[1] == {"a": 1, "b": 1, "c": 2, "d": {"p q": 1}}
    do(backend.discard([partition.location for partition in partitions]))
    assert not any(Path(partition.location).exists() for partition in partitions)


def test_a_plain_function_gets_parameters_and_context_and_needs_no_spark(
    backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path
) -> None:
    source = """
import datetime, os, pathlib

def note(context, day, at, times, path):
    assert day == datetime.date(2026, 2, 3) and at == datetime.datetime(2026, 2, 3, 4, 5)
    print("noted", context.attempt, context.job_name, context.subtask, context.parallelism)
    pathlib.Path(path).write_text(f"{times * 2} {sorted(os.listdir())}")
"""
    note = function("note", "sink", parameters=("day", "at", "times", "path"), wants_context=True)
    job = jobs.job(
        source,
        (note,),
        parameters={"day": "2026-02-03", "at": "2026-02-03T04:05:00", "times": 21, "path": str(tmp_path / "noted")},
        parameter_types={"day": "date", "at": "datetime", "times": "int", "path": "str"},
    )
    outcome = do(run(backend, job, deployment(job, attempt=2)))
    assert not outcome.sinks
    assert (tmp_path / "noted").read_text() == "42 []"


def test_a_worker_forgets_attempts_that_have_ended(
    backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path
) -> None:
    (tmp_path / "in.txt").write_text("a b c\n")
    do(settled(backend))
    others = attempts_held()
    for number in range(3):
        parameters = {"input": str(tmp_path / "in.txt"), "output": str(tmp_path / f"out{number}")}
        do(run(backend, jobs.job(WORD_COUNT, WORD_COUNT_FUNCTIONS, parameters=parameters)))
    do(settled(backend))
    assert attempts_held() <= max(1, others), "but the last one, for a second"


def attempts_held() -> int:
    """Attempts that something in this process still refers to."""
    gc.collect()
    return sum(isinstance(each, AttemptRun) for each in gc.get_objects())


def test_a_sink_writes_while_others_remove_the_directory_that_they_leave_empty(
    backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path
) -> None:
    over = threading.Event()

    def remove() -> None:
        while not over.is_set():
            with contextlib.suppress(OSError):
                (tmp_path / STAGING_NAME).rmdir()

    remover = threading.Thread(target=remove)
    remover.start()
    try:
        (tmp_path / "in.txt").write_text("a b c\n")
        parameters = {"input": str(tmp_path / "in.txt"), "output": str(tmp_path / "out")}
        outcome = do(run(backend, jobs.job(WORD_COUNT, WORD_COUNT_FUNCTIONS, parameters=parameters)))
        do(backend.commit(outcome.sinks[0]))
    finally:
        over.set()
        remover.join()
    assert len(rows(tmp_path / "out")) == 3


def test_python_functions_reach_spark_with_the_modules_they_import(
    backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path, scratch: Path
) -> None:
    source = """
from firesteel.adapters.spark.sinks.files import write_parquet
from pyspark.sql import functions as F
from helpers.text import shout

@F.udf("string")
def loud(text):
    from helpers import text as late
    return marked(shout(text), late.MARK)

def marked(text, mark):  # in the module whose decorators need a session
    return text + mark

def words(spark):
    return spark.createDataFrame([("hi",)], "word string").select(loud("word").alias("word"))

def result(words, output):
    write_parquet(words, output)
"""
    job = jobs.job(
        source,
        (function("words", wants_session=True), function("result", "sink", ["words"], parameters=("output",))),
        parameters={"output": str(tmp_path / "out")},
        more_files={"helpers/__init__.py": "", "helpers/text.py": "MARK = '!'\ndef shout(text): return text.upper()\n"},
    )
    outcome = do(run(backend, job))
    do(backend.commit(outcome.sinks[0]))
    assert rows(tmp_path / "out") == [{"word": "HI!"}]
    do(settled(backend))
    daemons = descendants(lambda process: "pyspark.daemon" in process.cmdline() and is_below(process, scratch / "work"))
    assert not psutil.wait_procs(daemons, timeout=300)[1], "what was killed takes a moment to end; nothing else ends"


def is_below(process: psutil.Process, work: Path) -> bool:
    """Whether it is one of the JVM that works there: those of other tests' fixtures have theirs."""
    return any(str(work) in " ".join(parent.cmdline()) for parent in process.parents())


def test_settings_views_and_modules_are_the_jobs_own(
    backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path
) -> None:
    for number in (3, 5):
        source = f"""
import os
def check(spark, path):
    assert not spark.catalog.listTables(), spark.catalog.listTables()
    spark.range(1).createOrReplaceTempView("mine")
    with open(path, "w") as file:
        file.write(f"{number} {{spark.conf.get('spark.sql.shuffle.partitions')}}")
"""
        check = function("check", "sink", wants_session=True, parameters=("path",))
        configuration = {"spark.sql.shuffle.partitions": str(number)}
        path = tmp_path / f"seen-{number}"
        job = jobs.job(source, (check,), parameters={"path": str(path)}, configuration=configuration)
        do(run(backend, job))
        assert path.read_text() == f"{number} {number}"


MEETING = """
import os, pathlib, time
from pyspark.sql import functions as F
from part import NAME

def meet(spark, here, there, path):
    spark.range(1).createOrReplaceTempView(f"only_{NAME}")
    spark.range(1).createOrReplaceGlobalTempView(f"all_{NAME}")
    spark.conf.set("spark.sql.shuffle.partitions", str(len(NAME)))
    pathlib.Path("own.txt").write_text(NAME)
    pathlib.Path(here).touch()
    while not os.path.exists(there):
        time.sleep(0.02)
    views = [table.name for table in spark.catalog.listTables()]
    in_spark = spark.range(1).select(F.udf(lambda x: __import__("part").NAME, "string")("id")).first()[0]
    in_global = {row.viewName for row in spark.sql("show views in global_temp").collect()}
    seen = [*views, in_spark, spark.conf.get("spark.sql.shuffle.partitions"), *os.listdir()]
    seen += sorted(in_global & {"all_one", "all_three"})
    pathlib.Path(path).write_text(" ".join(seen))
"""


def test_two_jobs_at_once_see_their_own_views_settings_files_and_modules(
    backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path
) -> None:
    """And, as docs/isolation.md says, the same global temporary views."""
    meet = function("meet", "sink", wants_session=True, parameters=("here", "there", "path"))
    marks = {name: str(tmp_path / f"here-{name}") for name in ("one", "three")}
    made = [
        jobs.job(
            MEETING,
            (meet,),
            parameters={"here": marks[name], "there": marks[other], "path": str(tmp_path / name)},
            more_files={"part.py": f"NAME = {name!r}\n"},
        )
        for name, other in (("one", "three"), ("three", "one"))
    ]

    async def both() -> None:
        await asyncio.gather(*(run(backend, job) for job in made))

    do(both())
    assert (tmp_path / "one").read_text() == "only_one one 3 own.txt all_one all_three"
    assert (tmp_path / "three").read_text() == "only_three three 5 own.txt all_one all_three"


def test_a_function_can_be_called_in_a_child_for_its_answer(backend: SparkTaskBackend, do: Runner) -> None:
    assert do(backend.call("firesteel.adapters.spark.wire:encode", b"x")) == b"\xc4\x01x"


def test_nothing_of_a_job_is_left_when_it_is_released(
    backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path, scratch: Path
) -> None:
    (tmp_path / "in.txt").write_text("a b a\nc a\n")
    parameters = {"input": str(tmp_path / "in.txt"), "output": str(tmp_path / "out")}
    job = jobs.job(WORD_COUNT, WORD_COUNT_FUNCTIONS, parameters=parameters)
    do(run(backend, job))
    do(backend.release_job(job.graph.job_id))
    assert not (tmp_path / ".firesteel-staging").exists()
    for name in ("attempts", "partitions"):
        assert not (scratch / "work" / name / job.graph.job_id).exists()
