"""Registered results: outcomes of finished attempts, whether they can be read, who reads them."""

import numpy as np
import numpy.typing as npt

from firesteel.core.execution.keytypes import KeyTypes
from firesteel.core.execution.sinktargets import SinkTargets
from firesteel.core.execution.topology import LogicalRegion, Topology
from firesteel.model.failures import FailureInfo
from firesteel.model.ids import DataSetID, RegionIndex
from firesteel.model.tasks import ResultGroup, ResultPartition, TaskOutcome, group_results


class PartitionTracker:
    """Consumers and sinks see only what is registered here: at most one attempt a region.

    `available[R]`: the region has finished and its stored results can be read.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self.available: npt.NDArray[np.bool_] = np.zeros(topology.region_count, dtype=np.bool_)
        self.outcomes: dict[RegionIndex, TaskOutcome] = {}
        """By region, as far as there is anything in it."""
        self._by_producer: list[dict[RegionIndex, TaskOutcome]] = [{} for _ in topology.logical]
        self._by_location: dict[str, RegionIndex] = {}
        self._groups: list[dict[DataSetID, ResultGroup | None]] = [{} for _ in topology.logical]
        """By producing logical region: what was made of its results as they are."""
        self.key_types = KeyTypes(topology)
        self.sink_targets = SinkTargets()

    def register(self, region: RegionIndex, outcome: TaskOutcome) -> None:
        """The one finished attempt of a region has left this."""
        assert not self.available[region], "a region's result is registered once"
        self.available[region] = True
        if outcome.partitions or outcome.sinks or outcome.reads or outcome.splits is not None:
            self.outcomes[region] = outcome
            producer = self._topology.logical_of(region)
            self._by_producer[producer.index][region] = outcome
            self._groups[producer.index].clear()
            self.key_types.note(producer, outcome)
            self.sink_targets.note(outcome)
        for partition in outcome.partitions:
            self._by_location[partition.location] = region

    @property
    def conflict(self) -> FailureInfo | None:
        """What can't go together in what the regions have left."""
        return self.key_types.conflict or self.sink_targets.conflict

    def bytes_of(self, dataset: DataSetID, producer: LogicalRegion) -> int:
        """Bytes of what is registered of a data set; -1 when nobody has counted some of them."""
        outcomes = self._by_producer[producer.index].values()
        sizes = [part.size_bytes for outcome in outcomes for part in _parts_of(outcome, dataset)]
        return -1 if min(sizes, default=0) < 0 else sum(sizes)

    def makers_of(self, locations: tuple[str, ...]) -> list[RegionIndex]:
        """The regions whose registered results these are, ascending; unknown ones are left out."""
        return sorted({self._by_location[name] for name in locations if name in self._by_location})

    def withdraw(self, region: RegionIndex) -> tuple[str, ...]:
        """The region is to run again: forget its results; returns the directories to delete."""
        self.available[region] = False
        outcome = self.outcomes.pop(region, TaskOutcome())
        producer = self._topology.logical_of(region)
        self._by_producer[producer.index].pop(region, None)
        self._groups[producer.index].clear()
        for partition in outcome.partitions:
            self._by_location.pop(partition.location, None)
        return locations_of(outcome)

    def inputs_of(self, logical: LogicalRegion, subtask: int) -> tuple[ResultPartition, ...]:
        """The registered results that a subtask of a logical region reads, by edge, but for those in its groups."""
        found: list[ResultPartition] = []
        for given in logical.inputs:
            if given.edge.source not in logical.read_whole:
                region = RegionIndex(self._topology.logical[given.producer].offset + subtask)
                found += _parts_of(self.outcomes.get(region, TaskOutcome()), given.edge.source)
        return tuple(dict.fromkeys(found))

    def groups_of(self, logical: LogicalRegion) -> list[ResultGroup]:
        """The registered results that every subtask of a logical region reads, by data set."""
        found = (self._group(dataset, producer) for dataset, producer in logical.read_whole.items())
        return [group for group in found if group is not None]

    def _group(self, dataset: DataSetID, producer: int) -> ResultGroup | None:
        made = self._groups[producer]
        if dataset not in made:
            outcomes = self._by_producer[producer]
            parts = [part for region in sorted(outcomes) for part in _parts_of(outcomes[region], dataset)]
            made[dataset] = group_results(dataset, parts) if parts else None
        return made[dataset]


def locations_of(outcome: TaskOutcome) -> tuple[str, ...]:
    """The directories an outcome speaks of."""
    return (*(part.location for part in outcome.partitions), *(sink.staging for sink in outcome.sinks))


def _parts_of(outcome: TaskOutcome, dataset: DataSetID) -> list[ResultPartition]:
    return [part for part in outcome.partitions if part.dataset_id == dataset]
