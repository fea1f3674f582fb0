"""Measurements side by side with plain Spark: `make bench`."""
