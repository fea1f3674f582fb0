"""Pipelined regions of a job graph, vertex by vertex: for showing a plan, and for tests of it."""

from firesteel.model.ids import JobVertexID
from firesteel.model.jobgraph import ExchangeMode, JobGraph


def pipelined_regions(graph: JobGraph) -> list[tuple[JobVertexID, ...]]:
    """Groups of vertices joined by pipelined edges, in the order of their first vertex.

    With parallelism p a group stands for p regions, one for each subtask index.
    """
    producer = {dataset.id: dataset.producer for dataset in graph.datasets}
    group = {vertex.id: index for index, vertex in enumerate(graph.vertices)}
    for edge in graph.edges:
        if edge.exchange is ExchangeMode.PIPELINED:
            kept, gone = sorted((group[producer[edge.source]], group[edge.target]))
            group = {vertex: kept if index == gone else index for vertex, index in group.items()}
    return [
        tuple(vertex.id for vertex in graph.vertices if group[vertex.id] == index)
        for index in sorted(set(group.values()))
    ]
