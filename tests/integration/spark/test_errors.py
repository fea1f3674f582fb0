"""Attempts that fail: whose fault, which function, which line."""

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from firesteel.adapters.spark.worker import attempt
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.model.failures import FailureInfo, FailureKind, failure_labels
from firesteel.model.ids import DataSetID
from firesteel.model.jobgraph import Function, RuntimeEnvironment
from firesteel.model.tasks import JobInformation, ResultPartition
from firesteel.runtime.ports import TaskFailedError
from tests.integration.spark.jobs import JobMaker, Runner, deployment, function, run, settled

pytestmark = pytest.mark.spark

ONCE, AGAIN = FailureKind.NON_RECOVERABLE, FailureKind.USER
"""How often what has failed so is tried."""

HEAD = "from firesteel.adapters.spark.sinks.files import write_parquet\nfrom pyspark.sql import functions as F\n"
RESULT = "\ndef result(source, output):\n    write_parquet(source, output)\n"
SOURCE_AND_SINK = (
    function("source", wants_session=True),
    function("result", "sink", ["source"], parameters=("output",)),
)


def failure_of(backend: SparkTaskBackend, do: Runner, job: JobInformation, **placement: Any) -> FailureInfo:
    with pytest.raises(TaskFailedError) as caught:
        do(run(backend, job, deployment(job, **placement)))
    return caught.value.failure


def source_job(
    jobs: JobMaker, tmp_path: Path, body: str, functions: Sequence[Function] = SOURCE_AND_SINK
) -> JobInformation:
    text = f"{HEAD}{body}{RESULT}"
    return jobs.job(text, functions, parameters={"output": str(tmp_path / "out")})


def test_missing_input_path(backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path) -> None:
    body = "def source(spark):\n    return spark.read.parquet('/nowhere/at/all')\n"
    failure = failure_of(backend, do, source_job(jobs, tmp_path, body))
    assert failure.kind is FailureKind.USER
    assert failure.vertex == "source"
    assert failure.message.startswith("[PATH_NOT_FOUND] Path does not exist")
    assert "/nowhere/at/all" in failure.message
    assert "SQLSTATE" not in failure.message
    assert "at org.apache" not in failure.message
    do(settled(backend))
    assert not (tmp_path / ".firesteel-staging").exists()


def test_a_storage_without_jars_is_told_with_what_reads_it(
    backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path
) -> None:
    """Spark says it first when the sink writes."""
    body = "def source(spark):\n    return spark.read.parquet('s3a://bucket/in')\n"
    failure = failure_of(backend, do, source_job(jobs, tmp_path, body))
    assert failure.message.startswith(
        "s3a://bucket/in: Spark has no jars for s3a://; name them: -D spark.jars.packages="
    )
    assert failure.kind is FailureKind.NON_RECOVERABLE


def test_missing_column_names_function_and_line(
    backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path
) -> None:
    body = "def source(spark):\n    frame = spark.range(3)\n    return frame.select(F.col('nope'))\n"
    failure = failure_of(backend, do, source_job(jobs, tmp_path, body))
    assert failure.message.startswith("[UNRESOLVED_COLUMN")
    assert (failure.vertex, failure.location) == ("source", "job.py:5")


def test_settings_that_spark_does_not_take_are_no_functions_fault(
    backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path
) -> None:
    """The source's question is the first, and has nothing to do with them."""
    text = f"{HEAD}def source(spark):\n    return spark.range(spark.range(3).count())\n{RESULT}"
    for name, value, condition in (
        ("spark.sql.shuffle.partitions", "many", "[INVALID_CONF_VALUE.TYPE_MISMATCH] The value 'many'"),
        ("spark.sql.warehouse.dir", "/elsewhere", "[CANNOT_MODIFY_STATIC_CONFIG]"),
    ):
        job = jobs.job(text, SOURCE_AND_SINK, parameters={"output": str(tmp_path / "out")}, configuration={name: value})
        failure = failure_of(backend, do, job)
        assert failure.message.startswith(condition)
        assert name in failure.message
        assert (failure.kind, failure.vertex, failure.location) == (FailureKind.USER, "", "")


def test_what_no_retry_mends_says_so(backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path) -> None:
    """An unknown column may be there the next time, when it was Spark that has found the columns."""
    wrong = {
        "return spark.sql('SELEKT 1')": (FailureKind.NON_RECOVERABLE, "SPARK"),
        "import no_such_module_x": (FailureKind.NON_RECOVERABLE, "USER"),
        "return spark.range(3).select('nope')": (FailureKind.USER, "SPARK"),
        "raise KeyError('k')": (FailureKind.USER, "USER"),
    }
    for body, expected in wrong.items():
        failure = failure_of(backend, do, source_job(jobs, tmp_path, f"def source(spark):\n    {body}\n"))
        assert (failure.kind, failure_labels(failure)["type"]) == expected, failure


def test_division_by_zero_at_run_time(backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path) -> None:
    body = "def source(spark):\n    return spark.range(3).select((F.col('id') / (F.col('id') - 1)).alias('x'))\n"
    failure = failure_of(backend, do, source_job(jobs, tmp_path, body))
    assert failure.message.startswith("[DIVIDE_BY_ZERO]")
    assert failure_labels(failure) == {"type": "SPARK", "condition": "DIVIDE_BY_ZERO"}
    assert (failure.vertex, failure.location) == ("source", "job.py:4")


def test_python_function_that_raises_in_spark(
    backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path
) -> None:
    body = (
        "def bad(x):\n    raise KeyError('boom')\n"
        "def source(spark):\n    return spark.range(3).select(F.udf(bad, 'string')('id').alias('x'))\n"
    )
    failure = failure_of(backend, do, source_job(jobs, tmp_path, body))
    assert failure.message == "KeyError: 'boom'"
    assert failure_labels(failure) == {"type": "USER"}
    assert failure.exception == "KeyError"
    assert failure.location == "job.py:4"
    assert failure.kind is FailureKind.USER


def test_exception_in_the_function_itself(
    backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path
) -> None:
    body = "def inner():\n    raise ValueError('no such day')\n\ndef source(spark):\n    inner()\n"
    failure = failure_of(backend, do, source_job(jobs, tmp_path, body))
    assert failure.headline() == "source (job.py:4): ValueError: no such day"
    assert "Traceback" in failure.trace


@pytest.mark.parametrize(
    ("statement", "kind", "says"),
    [
        ("pass", ONCE, "source source returned nothing (None), not a DataFrame of Spark; is its `return` missing?"),
        ("return 3", ONCE, "source source returned an int, not a DataFrame of Spark"),
        (
            "import pandas; return pandas.DataFrame()",
            ONCE,
            "returned a DataFrame of pandas, not a DataFrame of Spark; make one",
        ),
        (
            "import decimal; return decimal.Decimal()",
            ONCE,
            "returned an object of decimal.Decimal, not a DataFrame of Spark",
        ),
        ("import sys; sys.exit(3)", AGAIN, "source ended the process with sys.exit(3)"),
        ("import os; os._exit(3)", AGAIN, "the task process ended with status 3 and told no result"),
        (
            "import os; os.closerange(3, 256)",
            AGAIN,
            "told no result: code in it may have called os._exit, or closed file",
        ),
        ("raise OSError('no file ' + chr(0xDC80))", AGAIN, r"OSError: no file \udc80"),
        (
            "raise type('Mute', (ValueError,), {'__str__': lambda self: 1 / 0})",
            AGAIN,
            "Mute: (it says nothing: its text raises ZeroDivisionError)",
        ),
    ],
)
def test_what_a_function_must_not_do(
    backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path, statement: str, kind: FailureKind, says: str
) -> None:
    failure = failure_of(backend, do, source_job(jobs, tmp_path, f"def source(spark):\n    {statement}\n"))
    assert failure.kind is kind
    assert says in failure.message


def test_a_function_that_closes_the_worker_s_connection(
    backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "_CLOSED_GRACE_SECONDS", 0.5)
    body = "import os, time\ndef source(spark):\n    os.closerange(3, 1000)\n    time.sleep(600)\n"
    failure = failure_of(backend, do, source_job(jobs, tmp_path, body))
    assert "the task process has closed its connection with the worker, and went on" in failure.message


def test_what_a_function_has_started_ends_with_it(
    backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path
) -> None:
    body = """
import pathlib, subprocess
def source(spark, mark):
    pathlib.Path(mark).write_text(str(subprocess.Popen(["sleep", "600"]).pid))
    return spark.range(3)
"""
    source = function("source", wants_session=True, parameters=("mark",))
    mark = tmp_path / "mark"
    parameters = {"output": str(tmp_path / "out"), "mark": str(mark)}
    job = jobs.job(f"{HEAD}{body}{RESULT}", (source, SOURCE_AND_SINK[1]), parameters=parameters)
    do(run(backend, job, deployment(job)))
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int(mark.read_text())).wait(300)


def test_module_that_cannot_be_imported(backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path) -> None:
    failure = failure_of(backend, do, source_job(jobs, tmp_path, "import not_there\n\ndef source(spark): ...\n"))
    assert failure.location == "job.py:3"
    assert "No module named 'not_there'" in failure.message


def test_killed_process(backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path) -> None:
    body = "import os, signal\ndef source(spark):\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    failure = failure_of(backend, do, source_job(jobs, tmp_path, body))
    assert failure.kind is FailureKind.ENVIRONMENT
    assert "killed by SIGKILL; if the machine ran out of memory" in failure.message


def test_too_much_memory_in_python(backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path) -> None:
    body = "import time\ndef source(spark):\n    held = bytearray(b'x') * (800 << 20)\n    time.sleep(600)\n"
    failure = failure_of(backend, do, source_job(jobs, tmp_path, body))
    assert "over the limit of 700 MiB" in failure.message
    assert "taskmanager.memory.task-process.limit" in failure.message


def test_too_much_memory_in_a_process_that_was_started(
    backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path
) -> None:
    body = """
import subprocess, sys
def source(spark):
    grandchild = "import time; held = bytearray(b'x') * (800 << 20); time.sleep(600)"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {grandchild!r}])"
    subprocess.run([sys.executable, "-c", child])
"""
    failure = failure_of(backend, do, source_job(jobs, tmp_path, body))
    assert failure.message.startswith("the task process and what it has started held ")
    assert "over the limit of 700 MiB" in failure.message


def test_other_python_or_pyspark(backend: SparkTaskBackend, do: Runner, jobs: JobMaker) -> None:
    nothing = (function("nothing", "sink"),)
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    for environment, says in (
        (RuntimeEnvironment(python="3.8", pyspark=""), f"built with Python 3.8, this worker runs Python {here}"),
        (RuntimeEnvironment(python=here, pyspark="3.5.1"), "built with pyspark 3.5.1, this worker has pyspark 4."),
    ):
        job = jobs.job("def nothing(): ...", nothing, environment=environment)
        failure = failure_of(backend, do, job)
        assert failure.kind is FailureKind.NON_RECOVERABLE
        assert says in failure.message


def test_stored_result_that_is_gone(backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path) -> None:
    job = jobs.job(
        f"{HEAD}def source(spark): return spark.range(5)\n{RESULT}",
        SOURCE_AND_SINK,
        parameters={"output": str(tmp_path / "out")},
        blocking=("source",),
    )
    outcome = do(run(backend, job, deployment(job, ["source"])))
    (stored,) = outcome.partitions
    whole = failure_of(backend, do, job, names=["result"], region=1, inputs=[gone(stored, tmp_path)])
    assert (whole.kind, whole.partitions) == (FailureKind.PARTITION, (str(tmp_path / "gone"),))
    for file in Path(stored.location).glob("part-*"):
        file.write_bytes(b"PAR1 no longer")
    broken = failure_of(backend, do, job, names=["result"], region=1, attempt=1, inputs=[stored])
    assert (broken.kind, broken.partitions) == (FailureKind.PARTITION, (stored.location,))


def gone(stored: ResultPartition, tmp_path: Path) -> ResultPartition:
    return ResultPartition(
        dataset_id=DataSetID(stored.dataset_id), subtask=0, location=str(tmp_path / "gone"), columns=stored.columns
    )


def test_mode_error_refuses_before_anything_is_computed(
    backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    target.mkdir()
    (target / "kept").write_text("data")
    text = f"{HEAD}def result(spark):\n    write_parquet(spark.range(3), {str(target)!r}, mode='error')\n"
    failure = failure_of(backend, do, jobs.job(text, (function("result", "sink", wants_session=True),)))
    assert "exists and holds data" in failure.message
    assert failure.location == "job.py:4"


def test_too_much_memory_in_a_python_function(
    backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path
) -> None:
    body = """
import time
from pyspark.sql import functions as F
def source(spark):
    def hold(x):
        held = bytearray(b"x") * (800 << 20)
        time.sleep(600)
        return x
    return spark.range(1).select(F.udf(hold, "long")("id").alias("x"))
"""
    failure = failure_of(backend, do, source_job(jobs, tmp_path, body))
    assert failure.message.startswith("Spark's Python workers held ")
    assert "over the limit of 700 MiB" in failure.message


def test_what_was_printed_is_in_the_trace(
    backend: SparkTaskBackend, do: Runner, jobs: JobMaker, tmp_path: Path
) -> None:
    body = r"""
import os, sys
def source(spark):
    print("to standard output")
    print("to standard error", file=sys.stderr)
    os.write(2, b"\xff past Python\n")
    try:
        spark.range(1).select("nope").schema
    except Exception:
        pass
    raise ValueError("no")
"""
    failure = failure_of(backend, do, source_job(jobs, tmp_path, body))
    assert "Traceback" in failure.trace
    printed = failure.trace.partition("The end of what the attempt printed:")[2]
    lines = ["to standard output", "to standard error", "\ufffd past Python"]
    assert printed.strip().split("\n") == lines, "and none of PySpark's records of errors"
