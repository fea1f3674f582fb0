"""Pipelines without firesteel: their functions called one after the other, over plain PySpark.

`python -m benchmarks.tpch.bare PORT TOKEN [KEY=VALUE...]` opens a session on a Spark Connect server with these
settings, reads requests as JSON lines ({"file": ..., "parameters": {...}}) and answers each with the seconds it took.
"""

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from firesteel.pipeline.loading import loaded_pipeline
from firesteel.pipeline.logical import LogicalGraph, resolve
from firesteel.pipeline.parameters import parameter_values


def run_bare(graph: LogicalGraph, spark: SparkSession, given: Mapping[str, str]) -> None:
    """Call every function with the results it names, its parameters and the session."""
    values: dict[str, Any] = {"spark": spark, **parameter_values(graph.parameters, given)}
    for name, definition in graph.functions.items():
        assert definition.callable is not None, "these pipelines have functions only"
        arguments = {each.name: values[each.name] for each in definition.arguments if each.name in values}
        values[name] = definition.callable(**arguments)


def main(port: str, token: str, *settings: str) -> None:
    """Serve until standard input ends."""
    # By the name "localhost" a token goes without TLS.
    spark = SparkSession.builder.remote(f"sc://localhost:{port}/;token={token}").getOrCreate()
    for setting in settings:
        spark.conf.set(*setting.split("=", 1))
    for line in sys.stdin:
        request = json.loads(line)
        with loaded_pipeline(request["file"]) as loaded:
            graph = resolve(loaded.pipeline)
            started = time.perf_counter()
            run_bare(graph, spark, request["parameters"])
            print(time.perf_counter() - started, flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
