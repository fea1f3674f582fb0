"""Storages of results, for tests of what is stored."""

from pathlib import Path

from firesteel.adapters.spark.exchange.partitions import StoredResults


class Storage:
    """Where a test stores results: in a directory."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.settings: dict[str, str] = {}

    @property
    def results(self) -> StoredResults:
        """As an attempt has them that has read nothing yet."""
        return StoredResults(self.settings)

    def delete(self, location: str, name: str) -> None:
        Path(location, name).unlink()
