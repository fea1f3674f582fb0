"""Spark's JVMs: their command line and start, their restarts, which of them an attempt gets, and their end.

Runs in the worker, or alone with the standard library (`supervisor`, `archivist`): neither pyspark nor gRPC.
"""
