"""Import this before pyspark: its functions decide at their import, and again at each call, that there is no JVM here.

The variable that tells them is not left behind: processes that other tests start would take it for theirs.
"""

import contextlib
import threading
from collections.abc import Iterator

import pytest

VARIABLE = "SPARK_CONNECT_MODE_ENABLED"

with pytest.MonkeyPatch.context() as _patched:
    _patched.setenv(VARIABLE, "1")
    import pyspark.sql.functions  # noqa: F401


@contextlib.contextmanager
def connect_mode() -> Iterator[None]:
    """Connect mode for a while; sessions opened meanwhile are no longer the active ones afterwards."""
    from pyspark.sql.connect.session import SparkSession

    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(VARIABLE, "1")
        patched.setattr(SparkSession, "_default_session", None)
        patched.setattr(SparkSession, "_active_session", threading.local())
        yield
