"""The 22 queries of TPC-H, as pipelines (`examples/tpch`) and as the same functions called by plain PySpark."""

from benchmarks.report import ROOT

QUERIES = {f"q{number:02d}": ROOT / "examples" / "tpch" / f"q{number:02d}.py" for number in range(1, 23)}
"""The pipeline files."""
