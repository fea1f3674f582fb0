"""Bodies of what Spark tells."""

import msgspec

from firesteel.model.sparkwork import SparkWork


class SparkWorkInfo(msgspec.Struct, frozen=True, kw_only=True):
    work: SparkWork = SparkWork()
    missing: str = ""
    """Why Spark tells nothing, as a sentence; empty where it does."""
