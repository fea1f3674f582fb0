"""Pipelined regions of a job, computed from vertices and patterns, never from p × q edges.

Vertices joined by pipelined edges have one parallelism and form a *logical* region; subtask i of
each of them together are pipelined region i of it. Regions are numbered through: those of one
logical region follow one another, logical regions stand in topological order.
"""

from bisect import bisect_right
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from firesteel.model.ids import DataSetID, JobVertexID
from firesteel.model.jobgraph import (
    DistributionPattern,
    ExchangeMode,
    InvalidJobGraph,
    JobEdge,
    JobGraph,
    JobVertex,
    Partitioner,
)
from firesteel.model.resources import ResourceProfile

Regions = npt.NDArray[np.int64]
"""Indices of pipelined regions."""

MAX_REGIONS = 1_000_000
"""Regions of one job: ten times as many hold the event loop for seconds when it starts, and take a gigabyte."""


@dataclass(frozen=True, slots=True)
class RegionInput:
    """A blocking edge, seen from its consumer."""

    producer: int
    """Index of the producing logical region."""
    all_to_all: bool
    edge: JobEdge


@dataclass(frozen=True, slots=True)
class LogicalRegion:
    """`parallelism` pipelined regions of one shape, from `offset` on."""

    index: int
    vertices: tuple[JobVertex, ...]
    parallelism: int
    offset: int
    inputs: tuple[RegionInput, ...]
    consumers: tuple[tuple[int, bool], ...]
    """(logical region, whether all-to-all) of each blocking edge that leaves it."""
    mates: tuple[int, ...] = ()
    """Offsets of the logical regions whose subtask of equal index is best on the same worker: co-located ones first,
    then producers whose subtask of that index is all that is read of them."""
    alike: tuple[int, ...] = ()
    """Indices of the logical regions that have as many subtasks as it, whatever is decided: stored results are forwarded
    between them, from subtask to subtask. Its own is among them."""

    @property
    def auto_parallelism(self) -> bool:
        """Whether fewer subtasks than `parallelism` may do its work, each with several shares of what it reads."""
        if self.parallelism == 1 or not self.inputs or self.splits_from is not None:
            return False
        return all(vertex.auto_parallelism for vertex in self.vertices)

    @property
    def resources(self) -> ResourceProfile:
        """What a slot must have for one of its regions: enough for each vertex, for they run in it as one."""
        return reduce(ResourceProfile.covering, (vertex.resources for vertex in self.vertices))

    @property
    def read_whole(self) -> dict[DataSetID, int]:
        """The data sets that every subtask reads from all producers, and the logical region that produces each."""
        return {given.edge.source: given.producer for given in self.inputs if given.all_to_all}

    @property
    def splits_from(self) -> int | None:
        """Index of the logical region that finds the input splits its subtasks draw, if they do."""
        inputs = (given.producer for given in self.inputs if given.edge.partitioner is Partitioner.SPLITS)
        return next(inputs, None)

    @property
    def rows(self) -> slice:
        """Where its regions are among all."""
        return slice(self.offset, self.offset + self.parallelism)

    def regions(self) -> Regions:
        return np.arange(self.offset, self.offset + self.parallelism)


class Topology:
    """The regions of a job graph and what they wait for. Immutable; its size is that of the job graph.

    Raises InvalidJobGraph when regions wait for one another in a circle, or a pointwise edge joins
    vertices of different parallelism.
    """

    def __init__(self, graph: JobGraph) -> None:
        self.graph = graph
        groups = _groups(graph)
        order = _topological(groups, graph)
        self.logical = _number(graph, [groups[key] for key in order], order, groups)
        self.region_count = sum(region.parallelism for region in self.logical)
        if not 0 < self.region_count <= MAX_REGIONS:
            raise InvalidJobGraph(f"the job has {self.region_count} regions; 1 to {MAX_REGIONS} are possible")
        self._offsets = [region.offset for region in self.logical]
        self.by_vertex = {vertex.id: region for region in self.logical for vertex in region.vertices}

    def logical_of(self, region: int) -> LogicalRegion:
        """The logical region that a region belongs to."""
        return self.logical[bisect_right(self._offsets, region) - 1]

    def split(self, regions: Regions) -> list[tuple[LogicalRegion, Regions]]:
        """`regions` (ascending) by the logical region they belong to."""
        if len(regions) == 0:
            return []
        first = self.logical_of(int(regions[0]))
        if int(regions[-1]) < first.offset + first.parallelism:
            return [(first, regions)]
        owners = np.searchsorted(self._offsets, regions, side="right") - 1
        cuts = np.flatnonzero(np.diff(owners)) + 1
        parts = np.split(regions, cuts)
        return [
            (self.logical[int(owners[start])], part) for start, part in zip([0, *cuts.tolist()], parts, strict=True)
        ]


def _groups(graph: JobGraph) -> dict[JobVertexID, list[JobVertex]]:
    """Vertices joined by pipelined edges, by the first of them."""
    producer = {dataset.id: dataset.producer for dataset in graph.datasets}
    vertices = {vertex.id: vertex for vertex in graph.vertices}
    head = {vertex.id: vertex.id for vertex in graph.vertices}
    for edge in graph.edges:
        source, target = vertices[producer[edge.source]], vertices[edge.target]
        if edge.pattern is DistributionPattern.POINTWISE and source.parallelism != target.parallelism:
            raise InvalidJobGraph(
                f"edge {source.name} -> {target.name} joins subtasks of equal index, but parallelism is "
                f"{source.parallelism} and {target.parallelism}: give the input a distribution"
            )
        if edge.exchange is ExchangeMode.BLOCKING:
            continue
        if source.slot_sharing_group != target.slot_sharing_group:
            raise InvalidJobGraph(
                f"edge {source.name} -> {target.name} joins two slot sharing groups: it must be blocking"
            )
        if source.resources.labels != target.resources.labels:
            raise InvalidJobGraph(
                f"edge {source.name} -> {target.name} joins functions that run on differently labelled workers: it must be"
                " blocking"
            )
        if edge.pattern is not DistributionPattern.POINTWISE:
            raise InvalidJobGraph(
                f"edge {source.name} -> {target.name} goes from all subtasks to all: it must be blocking"
            )
        head[_head_of(target.id, head)] = _head_of(source.id, head)
    groups: dict[JobVertexID, list[JobVertex]] = {key: [] for key, parent in head.items() if key == parent}
    for vertex in graph.vertices:
        groups[_head_of(vertex.id, head)].append(vertex)
    return groups


def _head_of(vertex: JobVertexID, head: dict[JobVertexID, JobVertexID]) -> JobVertexID:
    """Follow the heads of heads to the last, and shorten the way for the next time."""
    while head[vertex] != vertex:
        head[vertex] = vertex = head[head[vertex]]
    return vertex


def _topological(groups: dict[JobVertexID, list[JobVertex]], graph: JobGraph) -> list[JobVertexID]:
    """Group keys so that producers of blocking edges come first; stable by the graph's own order."""
    head = {vertex.id: key for key, group in groups.items() for vertex in group}
    producer = {dataset.id: dataset.producer for dataset in graph.datasets}
    waits, readers = dict.fromkeys(groups, 0), {key: list[JobVertexID]() for key in groups}
    for edge in graph.edges:
        if edge.exchange is ExchangeMode.BLOCKING:
            readers[head[producer[edge.source]]].append(head[edge.target])
            waits[head[edge.target]] += 1
    position = {key: index for index, key in enumerate(groups)}
    order: list[JobVertexID] = []
    ready = [key for key, count in waits.items() if not count]
    while ready:
        order += ready
        following: list[JobVertexID] = []
        for key in ready:
            for reader in readers[key]:
                waits[reader] -= 1
                if not waits[reader]:
                    following.append(reader)
        ready = sorted(following, key=lambda key: position[key])
    if len(order) < len(groups):
        stuck = ", ".join(groups[key][0].name for key, count in waits.items() if count)
        raise InvalidJobGraph(
            f"regions wait for one another in a circle: {stuck}; make one of their pipelined edges blocking"
        )
    return order


def _number(
    graph: JobGraph, parts: list[list[JobVertex]], order: list[JobVertexID], groups: dict[JobVertexID, list[JobVertex]]
) -> tuple[LogicalRegion, ...]:
    index_of = {vertex.id: index for index, key in enumerate(order) for vertex in groups[key]}
    producer = {dataset.id: index_of[dataset.producer] for dataset in graph.datasets}
    inputs: list[list[RegionInput]] = [[] for _ in parts]
    consumers: list[list[tuple[int, bool]]] = [[] for _ in parts]
    for edge in graph.edges:
        if edge.exchange is ExchangeMode.BLOCKING:
            all_to_all = edge.pattern is DistributionPattern.ALL_TO_ALL
            source, target = producer[edge.source], index_of[edge.target]
            inputs[target].append(RegionInput(source, all_to_all, edge))
            consumers[source].append((target, all_to_all))
    offsets = np.cumsum([0, *(vertices[0].parallelism for vertices in parts)]).tolist()
    located, alike = _co_located(parts), _alike(inputs)
    regions: list[LogicalRegion] = []
    for index, vertices in enumerate(parts):
        near = [*located[index], *(given.producer for given in inputs[index] if not given.all_to_all)]
        regions.append(
            LogicalRegion(
                index,
                tuple(vertices),
                vertices[0].parallelism,
                offsets[index],
                tuple(inputs[index]),
                tuple(consumers[index]),
                tuple(offsets[each] for each in dict.fromkeys(near)),
                alike[index],
            )
        )
    return tuple(regions)


def _alike(inputs: list[list[RegionInput]]) -> list[tuple[int, ...]]:
    """For each logical region those that forwarded results join it with, itself among them, ascending."""
    groups: list[set[int]] = [{index} for index in range(len(inputs))]
    for index, read in enumerate(inputs):
        for given in read:
            if not given.all_to_all and groups[given.producer] is not groups[index]:
                groups[index] |= groups[given.producer]
                for member in groups[index]:
                    groups[member] = groups[index]
    return [tuple(sorted(group)) for group in groups]


def _co_located(parts: list[list[JobVertex]]) -> list[list[int]]:
    """Logical regions that each one shares a co-location group with. Raises InvalidJobGraph."""
    groups: dict[str, dict[int, None]] = {}
    for index, vertices in enumerate(parts):
        for vertex in vertices:
            if vertex.co_location_group:
                groups.setdefault(vertex.co_location_group, {})[index] = None
    for name, members in groups.items():
        counts = sorted({parts[index][0].parallelism for index in members})
        if len(counts) > 1:
            raise InvalidJobGraph(f"co-location group {name}: parallelism must be equal, and is {counts}")
    located: list[list[int]] = [[] for _ in parts]
    for members in groups.values():
        for index in members:
            located[index] += [other for other in members if other != index]
    return located
