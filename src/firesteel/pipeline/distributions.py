"""Distributions: how rows of an input reach the subtasks of the function that reads it."""

import msgspec

from firesteel.model.jobgraph import DistributionPattern, Partitioner
from firesteel.pipeline.errors import InvalidPipeline


class Distribution(msgspec.Struct, frozen=True):
    """An input's distribution. Without meaning where both ends have parallelism 1."""

    partitioner: Partitioner
    keys: tuple[str, ...] = ()

    @property
    def pattern(self) -> DistributionPattern:
        forward = self.partitioner is Partitioner.FORWARD
        return DistributionPattern.POINTWISE if forward else DistributionPattern.ALL_TO_ALL


FORWARD = Distribution(Partitioner.FORWARD)


def hash_by(*columns: str) -> Distribution:
    """Rows with equal values in `columns` meet in one subtask. Null equals null."""
    if not columns or not all(isinstance(column, str) and column for column in columns):
        raise InvalidPipeline(f'hash_by{columns!r}: name at least one column, like hash_by("word")')
    if len(set(columns)) < len(columns):
        raise InvalidPipeline(f"hash_by{columns!r}: name each column once")
    return Distribution(Partitioner.HASH, columns)


def rebalance() -> Distribution:
    """Rows are spread evenly, in no particular order."""
    return Distribution(Partitioner.REBALANCE)


def broadcast() -> Distribution:
    """Every subtask gets every row."""
    return Distribution(Partitioner.BROADCAST)


def forward() -> Distribution:
    """A subtask gets the rows of the producer's subtask of its own index: both need equal parallelism."""
    return FORWARD
