"""Functions for Spark are declared where there is no Spark, and their types are Spark's to parse."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from firesteel.model.ids import JobID
from firesteel.pipeline.build import BuildRequest, BuiltJob, decode_build_reply

DECLARED = """
import firesteel as fs
import pandas as pd
from pyspark.sql import functions as F

pipeline = fs.Pipeline("declared")

@F.udf("string")
def text(value): ...

@F.udf(returnType="a int, b array<struct<c: string>>")
def several(value): ...

@F.pandas_udf("decimal(10, 2)")
def half(value: pd.Series) -> pd.Series: ...

@F.pandas_udf("k: int", F.PandasUDFType.GROUPED_MAP)
def groups(frame): ...

@F.udtf(returnType="n int")
class Numbers:
    def eval(self): ...

@pipeline.source
def rows(spark): ...

@pipeline.result
def out(rows): ...
"""


def run(program: str, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """In a Python that has loaded nothing of Spark."""
    environment = {key: value for key, value in os.environ.items() if key != "SPARK_CONNECT_MODE_ENABLED"}
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, input=given, capture_output=True, env=environment, timeout=120, check=False)


@pytest.mark.parametrize("loaded_before", ["", "import os; os.environ['SPARK_CONNECT_MODE_ENABLED'] = '1'"])
def test_a_file_that_declares_functions_by_text_is_built_without_spark(tmp_path: Path, loaded_before: str) -> None:
    file = tmp_path / "declared.py"
    file.write_text(DECLARED)
    (tmp_path / "out").mkdir()
    request = BuildRequest(file=str(file), job_id=JobID("0" * 32), output_dir=str(tmp_path / "out"))
    loads = f"{loaded_before}; import pyspark.sql.functions, pyspark.sql.connect.udf" if loaded_before else ""
    program = f"{loads}\nimport sys, firesteel.pipeline.build as b\nsys.stdout.buffer.write(b.build_in_child(sys.stdin.buffer.read()))"
    done = run(program, given=msgspec.json.encode(request))
    assert done.returncode == 0, done.stderr.decode()
    assert isinstance(decode_build_reply(done.stdout), BuiltJob), done.stdout


def test_types_that_travel_in_a_pickle_are_parsed_where_they_arrive(tmp_path: Path) -> None:
    program = """
import os, pickle, sys
os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
from firesteel.pipeline.declarations import need_no_session
need_no_session()
need_no_session()
from pyspark.sql import functions as F
sys.stdout.buffer.write(pickle.dumps([F.udf(len, "int").returnType, F.udf(len, "map<string, int>").returnType]))
"""
    done = run(program)
    assert done.returncode == 0, done.stderr.decode()
    arrives = (
        "import pyspark.sql.types as t, pickle, sys; t._parse_datatype_string = lambda text: 'Spark has parsed ' + text"
    )
    found = run(f"{arrives}\nprint(pickle.load(sys.stdin.buffer))", given=done.stdout)
    assert found.stdout.decode().strip() == "['Spark has parsed int', 'Spark has parsed map<string, int>']", (
        found.stderr
    )


def test_loading_no_pyspark_loads_none() -> None:
    done = run(
        "import sys; from firesteel.pipeline.declarations import need_no_session; need_no_session();"
        " print([name for name in sys.modules if name.startswith('pyspark')])"
    )
    assert done.stdout.decode().strip() == "[]", done.stderr
