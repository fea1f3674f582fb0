"""firesteel: a highly available master for PySpark pipelines. What users import, loaded when it is used."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firesteel.adapters.spark.exchange.results import ResultRows
    from firesteel.adapters.spark.sinks.fanout import fan_out, to_files
    from firesteel.adapters.spark.sinks.files import write_csv, write_json, write_parquet, write_text
    from firesteel.adapters.spark.sinks.jdbc import write_jdbc
    from firesteel.adapters.spark.sinks.kafka import write_kafka
    from firesteel.adapters.spark.sinks.streamfiles import stream_files
    from firesteel.adapters.spark.sinks.tables import write_table
    from firesteel.adapters.spark.sinks.twophase import write_two_phase
    from firesteel.adapters.spark.splits.argument import DateSplits, FileSplits, RangeSplits
    from firesteel.adapters.spark.splits.kafka import KafkaSplits
    from firesteel.client.cluster import AsyncClusterClient, ClusterClient
    from firesteel.minicluster import MiniCluster
    from firesteel.model.options import Configuration
    from firesteel.pipeline.attachments import Attachments
    from firesteel.pipeline.authoring import Pipeline
    from firesteel.pipeline.build import build_job
    from firesteel.pipeline.definition import noop
    from firesteel.pipeline.distributions import broadcast, forward, hash_by, rebalance
    from firesteel.pipeline.errors import InvalidPipeline
    from firesteel.pipeline.kafkasplits import kafka_splits
    from firesteel.pipeline.splits import date_splits, file_splits, param, range_splits

__all__ = [
    "AsyncClusterClient",
    "Attachments",
    "ClusterClient",
    "Configuration",
    "DateSplits",
    "FileSplits",
    "InvalidPipeline",
    "KafkaSplits",
    "MiniCluster",
    "Pipeline",
    "RangeSplits",
    "ResultRows",
    "broadcast",
    "build_job",
    "date_splits",
    "fan_out",
    "file_splits",
    "forward",
    "hash_by",
    "kafka_splits",
    "noop",
    "param",
    "range_splits",
    "rebalance",
    "stream_files",
    "to_files",
    "write_csv",
    "write_jdbc",
    "write_json",
    "write_kafka",
    "write_parquet",
    "write_table",
    "write_text",
    "write_two_phase",
]

_HOMES = {
    "AsyncClusterClient": "firesteel.client.cluster",
    "Attachments": "firesteel.pipeline.attachments",
    "ClusterClient": "firesteel.client.cluster",
    "Configuration": "firesteel.model.options",
    "DateSplits": "firesteel.adapters.spark.splits.argument",
    "FileSplits": "firesteel.adapters.spark.splits.argument",
    "InvalidPipeline": "firesteel.pipeline.errors",
    "KafkaSplits": "firesteel.adapters.spark.splits.kafka",
    "MiniCluster": "firesteel.minicluster",
    "Pipeline": "firesteel.pipeline.authoring",
    "RangeSplits": "firesteel.adapters.spark.splits.argument",
    "ResultRows": "firesteel.adapters.spark.exchange.results",
    "broadcast": "firesteel.pipeline.distributions",
    "build_job": "firesteel.pipeline.build",
    "date_splits": "firesteel.pipeline.splits",
    "fan_out": "firesteel.adapters.spark.sinks.fanout",
    "file_splits": "firesteel.pipeline.splits",
    "forward": "firesteel.pipeline.distributions",
    "hash_by": "firesteel.pipeline.distributions",
    "kafka_splits": "firesteel.pipeline.kafkasplits",
    "noop": "firesteel.pipeline.definition",
    "param": "firesteel.pipeline.splits",
    "range_splits": "firesteel.pipeline.splits",
    "rebalance": "firesteel.pipeline.distributions",
    "stream_files": "firesteel.adapters.spark.sinks.streamfiles",
    "to_files": "firesteel.adapters.spark.sinks.fanout",
    "write_csv": "firesteel.adapters.spark.sinks.files",
    "write_jdbc": "firesteel.adapters.spark.sinks.jdbc",
    "write_json": "firesteel.adapters.spark.sinks.files",
    "write_kafka": "firesteel.adapters.spark.sinks.kafka",
    "write_parquet": "firesteel.adapters.spark.sinks.files",
    "write_table": "firesteel.adapters.spark.sinks.tables",
    "write_text": "firesteel.adapters.spark.sinks.files",
    "write_two_phase": "firesteel.adapters.spark.sinks.twophase",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'firesteel' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
