"""Spark as data engine: the only package that imports pyspark, and only inside task processes."""
