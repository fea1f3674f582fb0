"""Importing firesteel costs next to nothing, and building a graph loads no Spark."""

import subprocess
import sys

import pytest

HEAVY = ("pyspark", "numpy", "pandas", "pyarrow", "rich", "grpc", "asyncio", "cloudpickle", "yaml")


def loaded_by(code: str) -> list[str]:
    program = f"{code}\nimport sys\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return list(eval(done.stdout))


BUILD = """
import firesteel as fs
from firesteel.pipeline.graph import build_job_graph
pipeline = fs.Pipeline("p")
pipeline.add(fs.noop("a"))
build_job_graph(pipeline, job_id="0" * 32)
"""


@pytest.mark.parametrize("code", ["import firesteel", "import firesteel as fs; fs.Pipeline, fs.hash_by", BUILD])
def test_nothing_heavy_is_loaded(code: str) -> None:
    assert loaded_by(code) == []


def test_names_that_are_not_there() -> None:
    import firesteel

    assert "Pipeline" in dir(firesteel)
    with pytest.raises(AttributeError, match="no attribute 'Pipelin'"):
        firesteel.Pipelin  # noqa: B018
