"""Parallelism changes no result: random pipelines against themselves and against plain PySpark."""

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings

from firesteel.adapters.storage.sinks import commit_sink
from tests.integration.spark.inprocess import InProcess
from tests.integration.spark.pipelines import CASES, EMPTY, RICH, TYPED, counted, pipeline_of, plain
from tests.integration.spark.storages import always_in_buckets

THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
pytestmark = [pytest.mark.spark, *([pytest.mark.timeout(0)] if THOROUGH else [])]


PARALLELISMS = [(1, [RICH, TYPED], 1), (4, [RICH, TYPED, EMPTY], 2), (16, [RICH], 0)]
IN_BUCKETS = (4, 7)
if THOROUGH:
    PARALLELISMS.append((7, [RICH, TYPED, EMPTY], 0))


@pytest.mark.parametrize(("parallelism", "cases", "examples"), PARALLELISMS)
def test_parallelism_changes_no_result(local: InProcess, parallelism: int, cases: list[Any], examples: int) -> None:
    count = 200 if THOROUGH else examples
    phases = tuple(Phase) if count else (Phase.explicit,)

    @settings(max_examples=max(1, count), phases=phases, suppress_health_check=list(HealthCheck))
    @given(CASES)
    def equal(case: Any) -> None:
        with tempfile.TemporaryDirectory() as directory:
            target = Path(directory, "out")
            pipeline = pipeline_of(case, parallelism, str(target))
            expected = plain(pipeline, local.spark)
            for commit in local.run(pipeline):
                commit_sink(commit)
            found = local.spark.read.schema(expected.schema).parquet(str(target))
            assert counted(found) == counted(expected)

    for case in cases:
        equal = example(case)(equal)
    with always_in_buckets() if parallelism in IN_BUCKETS else contextlib.nullcontext():
        equal()
