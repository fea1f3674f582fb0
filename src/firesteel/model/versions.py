"""The versions that work together."""

SPARK_SERIES = "4.3"
"""Of PySpark, and of the Spark that it brings. What a worker does with a session and the operations in it is in no
interface that PySpark keeps: others were tried, and none of them runs a job (docs/spark-clusters.md)."""


def pyspark_refusal(version: str) -> str:
    """Why a worker with this PySpark, or none, runs no jobs; empty when it does."""
    if version.startswith(f"{SPARK_SERIES}."):
        return ""
    found = f"pyspark {version} is installed here" if version else "pyspark is not installed here"
    return f"{found}, and firesteel works with {SPARK_SERIES}: pip install 'pyspark[connect]=={SPARK_SERIES}.*'"
