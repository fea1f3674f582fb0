"""The border within the Spark adapter: a worker is small and forks fast because PySpark and gRPC stay beyond it.

The contracts in pyproject.toml say which module may import which; here the imports are run.
"""

import pkgutil
import subprocess
import sys

import pytest

import firesteel.adapters.spark as adapter

WORKER_SIDE = ("children", "jvm", "staged", "worker", "wire")
BEYOND = ("grpc", "py4j", "pyspark")


def modules_below(*rooms: str) -> list[str]:
    """Every module of these rooms, by its whole name."""
    found = pkgutil.walk_packages(adapter.__path__, f"{adapter.__name__}.")
    starts = tuple(f"{adapter.__name__}.{room}" for room in rooms)
    return [module.name for module in found if f"{module.name}.".startswith(tuple(f"{start}." for start in starts))]


def loaded_by(*modules: str) -> list[str]:
    """Those of BEYOND that a fresh interpreter has loaded after it has imported the modules."""
    lines = [f"import {module}" for module in modules]
    lines.append(f"import sys; print([name for name in {BEYOND!r} if name in sys.modules])")
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    return list(eval(done.stdout))


def test_the_worker_side_loads_neither_pyspark_nor_grpc() -> None:
    modules = modules_below(*WORKER_SIDE)
    assert len(modules) > 20, "the rooms have other names now"
    assert loaded_by("firesteel.assembly.taskmanager", "firesteel.assembly.worker", *modules) == []


@pytest.mark.parametrize("module", ["task.process", "session.attempt"])
def test_the_check_sees_what_is_beyond(module: str) -> None:
    assert {"grpc", "pyspark"} <= set(loaded_by(f"{adapter.__name__}.{module}"))
