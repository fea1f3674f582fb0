"""Spark as data engine: the only package that imports pyspark, and only in processes beside the worker.

At the top are what both sides of that border speak (`wire`) and how a pipeline's author is told off (`refusals`).
"""
