"""What sinks have staged, in names and notes that both the worker and task processes write and read.

Data and small files only: neither pyspark nor gRPC.
"""
