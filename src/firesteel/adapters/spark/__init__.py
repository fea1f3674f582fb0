"""Spark as data engine: the only package that imports pyspark, and only in processes beside the worker.

Beside the rooms: what both sides of that border speak (`wire`), what a pipeline's author is told (`refusals`), and all
that is touched of PySpark's private parts (`internals`).
"""
