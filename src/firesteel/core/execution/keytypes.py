"""Whether the hash keys of inputs that meet in one consumer are compared as they were hashed."""

import re

from firesteel.core.execution.topology import LogicalRegion, Topology
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.jobgraph import JobEdge, Partitioner
from firesteel.model.tasks import ResultPartition, TaskOutcome

VOID = "void"
"""Type of keys that are always null: it goes with every other."""
DECIMAL_DIGITS_MAX = 38
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


class KeyTypes:
    """Types of hash keys by consumer, number of keys, and position: those first reported are the ones to match.

    Inputs with different numbers of keys are not compared: no operator may rely on their rows meeting.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._names = {dataset.id: dataset.name for dataset in topology.graph.datasets}
        self._first: dict[tuple[int, int, int], tuple[str, str]] = {}
        self.conflict: FailureInfo | None = None

    def note(self, producer: LogicalRegion, outcome: TaskOutcome) -> None:
        """A region of `producer` has left this. `conflict` says what doesn't fit."""
        for partition in outcome.partitions:
            if partition.key_types:
                for consumer in dict.fromkeys(index for index, _ in producer.consumers):
                    self._compare(self._topology.logical[consumer], partition)

    def _compare(self, consumer: LogicalRegion, partition: ResultPartition) -> None:
        for given in consumer.inputs:
            if given.edge.source == partition.dataset_id and given.edge.partitioner is Partitioner.HASH:
                for position in range(len(partition.key_types)):
                    self._match(consumer, given.edge, partition, position)

    def _match(self, consumer: LogicalRegion, edge: JobEdge, partition: ResultPartition, position: int) -> None:
        key_type = partition.key_types[position]
        if key_type == VOID:
            return
        column_type = partition.key_column_types[position] if partition.key_column_types else key_type
        shown = f"{edge.keys[position]!r} of {self._names[edge.source]!r} is {column_type}"
        place = (consumer.index, len(edge.keys), position)
        known_type, known = self._first.setdefault(place, (key_type, shown))
        common = common_type(known_type, key_type)
        if common is not None:
            self._first[place] = common, known if common == known_type else f"{known}, {shown}"
        elif self.conflict is None:
            name = next(vertex.name for vertex in consumer.vertices if vertex.id == edge.target)
            self.conflict = FailureInfo(
                kind=FailureKind.NON_RECOVERABLE,
                message=f"the hash keys of its inputs can't be equal: {known}, {shown}; cast one to the other's type",
                vertex=name,
            )


def common_type(one: str, other: str) -> str | None:
    """The type as which values of both are compared as they are; None when there is none.

    Decimals of which no type has all digits are rounded by Spark before it compares them: 1.4 as decimal(3,1) is equal to
    1 as decimal(38,0). Rows that are equal only then were not hashed to one place.
    """
    first, second = _DECIMAL.fullmatch(one), _DECIMAL.fullmatch(other)
    if one == other or first is None or second is None:
        return one if one == other else None
    digits = [(int(found[1]), int(found[2])) for found in (first, second)]
    whole, scale = max(precision - scale for precision, scale in digits), max(scale for _, scale in digits)
    return f"decimal({whole + scale},{scale})" if whole + scale <= DECIMAL_DIGITS_MAX else None
