"""What the worker itself does for its attempts: it runs, watches and clears up, by messages and files.

Runs on the worker's event loop: neither pyspark nor gRPC, and no user code.
"""
