"""Whether the hash keys of inputs that meet in one consumer can be equal at all."""

from firesteel.core.execution.topology import LogicalRegion, Topology
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.jobgraph import JobEdge, Partitioner
from firesteel.model.tasks import ResultPartition, TaskOutcome

VOID = "void"
"""Type of keys that are always null: it goes with every other."""


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
                for position, key_type in enumerate(partition.key_types):
                    self._match(consumer, given.edge, (position, key_type))

    def _match(self, consumer: LogicalRegion, edge: JobEdge, key: tuple[int, str]) -> None:
        position, key_type = key
        if key_type == VOID:
            return
        shown = f"{edge.keys[position]!r} of {self._names[edge.source]!r} is {key_type}"
        place = (consumer.index, len(edge.keys), position)
        known_type, known = self._first.setdefault(place, (key_type, shown))
        if known_type != key_type and self.conflict is None:
            name = next(vertex.name for vertex in consumer.vertices if vertex.id == edge.target)
            self.conflict = FailureInfo(
                kind=FailureKind.NON_RECOVERABLE,
                message=f"the hash keys of its inputs can't be equal: {known}, {shown}; cast one to the other's type",
                vertex=name,
            )
