"""Children of the fork server, from the worker's side: asked for, spoken to, their ends noticed.

Runs in the worker: neither pyspark nor gRPC. What the children do is in `task`.
"""
