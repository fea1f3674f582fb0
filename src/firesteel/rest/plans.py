"""A job's graph as Flink's dashboard draws it: what a node does in one line, above the names of its functions."""

import html
from collections.abc import Iterable

from firesteel.model.jobgraph import JobGraph
from firesteel.model.views import EdgeView, JobView
from firesteel.rest.schema import jobs as j


def plan_of_graph(graph: JobGraph) -> j.Plan:
    """Plan of a job that was not submitted."""
    producers = {dataset.id: dataset.producer for dataset in graph.datasets}
    edges = (
        EdgeView(
            source=producers[edge.source],
            target=edge.target,
            dataset=edge.source,
            exchange=edge.exchange.value,
            partitioner=edge.partitioner.value,
        )
        for edge in graph.edges
    )
    nodes = [
        _node(vertex.id, vertex.name, vertex.parallelism, [function.kind.value for function in vertex.functions])
        for vertex in graph.vertices
    ]
    return j.Plan(jid=graph.job_id, name=graph.name, type=graph.job_type.name, nodes=_joined(nodes, edges))


def plan_of_view(view: JobView) -> j.Plan:
    nodes = [_node(vertex.id, vertex.name, vertex.parallelism, vertex.kinds) for vertex in view.vertices]
    return j.Plan(jid=view.job_id, name=view.name, type=view.job_type.name, nodes=_joined(nodes, view.edges))


def _node(vertex_id: str, name: str, parallelism: int, kinds: Iterable[str]) -> j.PlanNode:
    return j.PlanNode(
        id=vertex_id,
        parallelism=parallelism,
        operator=_as_html(" -> ".join(kind.capitalize() for kind in kinds)),
        description=_as_html(name),
    )


def _joined(nodes: list[j.PlanNode], edges: Iterable[EdgeView]) -> list[j.PlanNode]:
    """The nodes with what each reads."""
    inputs = {node.id: node.inputs for node in nodes}
    for edge in edges:
        known = inputs[edge.target]
        known.append(j.PlanInput(len(known), edge.source, edge.partitioner.upper(), edge.exchange))
    return nodes


def _as_html(text: str) -> str:
    return html.escape(text).replace("\n", "<br/>")
