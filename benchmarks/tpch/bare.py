"""Pipelines without firesteel: their functions called one after the other, over plain PySpark.

`python -m benchmarks.tpch.bare PORT TOKEN [KEY=VALUE...]` reads requests as JSON lines ({"file": ..., "parameters": {...},
"stored": [...], "scratch": ...}), runs each in a session with these settings on a Spark Connect server, and answers with the
seconds that took. What the functions named in `stored` return, if any, is written below `scratch`, and read from there.
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


def run_bare(graph: LogicalGraph, spark: SparkSession, request: Mapping[str, Any]) -> None:
    """Call every function with the results it names, its parameters and the session."""
    values: dict[str, Any] = {"spark": spark, **parameter_values(graph.declared, request["parameters"])}
    for name, definition in graph.functions.items():
        assert definition.callable is not None, "these pipelines have functions only"
        arguments = {each.name: values[each.name] for each in definition.arguments if each.name in values}
        values[name] = definition.callable(**arguments)
        if name in request.get("stored", ()):
            path = f"{request['scratch']}/{name}"
            values[name].write.parquet(path)
            values[name] = spark.read.parquet(path)


def main(port: str, token: str, *settings: str) -> None:
    """Serve until standard input ends. Opening a session is not counted.

    Each request has one of its own: a session that sees a plan again takes its analysis, file listing and all, from the
    time before. They go with the server: a process that has stopped one waits for ever in the next.
    """
    for line in sys.stdin:
        request = json.loads(line)
        # By the name "localhost" a token goes without TLS.
        spark = SparkSession.builder.remote(f"sc://localhost:{port}/;token={token}").create()
        for setting in settings:
            spark.conf.set(*setting.split("=", 1))
        with loaded_pipeline(request["file"]) as loaded:
            graph = resolve(loaded.pipeline)
            started = time.perf_counter()
            run_bare(graph, spark, request)
            print(time.perf_counter() - started, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
