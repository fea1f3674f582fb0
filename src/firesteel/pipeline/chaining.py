"""Chaining: functions that follow one another become one vertex."""

from collections import Counter
from collections.abc import Mapping, Sequence

from firesteel.model.jobgraph import ExchangeMode
from firesteel.pipeline.definition import FunctionDefinition
from firesteel.pipeline.exchanges import Exchange
from firesteel.pipeline.logical import LogicalGraph


def chain_functions(
    graph: LogicalGraph, exchanges: Sequence[Exchange], parallelism: Mapping[str, int], *, enabled: bool
) -> list[tuple[str, ...]]:
    """Names of the functions of each vertex, in the order they run; vertices in topological order.

    Two functions are chained when the edge between them is pipelined, is the only output of the
    one and the only input of the other, and both ask for the same slot and the same limits.
    """
    outputs = Counter(exchange.source for exchange in exchanges)
    inputs = Counter(exchange.target for exchange in exchanges)
    successor = {
        exchange.source: exchange.target
        for exchange in exchanges
        if enabled
        and exchange.mode is ExchangeMode.PIPELINED
        and outputs[exchange.source] == 1
        and inputs[exchange.target] == 1
        and parallelism[exchange.source] == parallelism[exchange.target]
        and _limits(graph.functions[exchange.source]) == _limits(graph.functions[exchange.target])
    }
    followers = set(successor.values())
    # A chain is entered at its head and left at its tail only, so the order of heads is topological.
    return [_chain(head, successor) for head in graph.functions if head not in followers]


def _chain(head: str, successor: Mapping[str, str]) -> tuple[str, ...]:
    chain = [head]
    while chain[-1] in successor:
        chain.append(successor[chain[-1]])
    return tuple(chain)


def _limits(definition: FunctionDefinition) -> tuple[object, ...]:
    return definition.resources, definition.max_attempts, definition.timeout_ms, definition.co_location
