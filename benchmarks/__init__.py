"""Measurements side by side with what people use today: `make bench`, or `python -m benchmarks CASE...`."""
