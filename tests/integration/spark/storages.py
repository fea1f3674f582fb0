"""Storages of results, for tests of what is stored."""

from pathlib import Path

from firesteel.adapters.spark.exchange.partitions import StoredResults


class Storage:
    """Where a test stores results: in a directory, in our form if Spark's tasks know our classes."""

    def __init__(self, root: str, *, has_classes: bool = True) -> None:
        self.root, self.has_classes = root, has_classes
        self.settings: dict[str, str] = {}

    @property
    def results(self) -> StoredResults:
        """As an attempt has them that has read nothing yet."""
        return StoredResults(self.settings, has_classes=self.has_classes)

    def delete(self, location: str, name: str) -> None:
        Path(location, name).unlink()
