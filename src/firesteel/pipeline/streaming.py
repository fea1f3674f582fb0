"""Streaming pipelines: what they may be made of, and how their edges are carried."""

from collections.abc import Iterable, Mapping, Sequence

from firesteel.model.jobgraph import FunctionKind
from firesteel.model.labels import Labels, labels_text
from firesteel.model.unsupported import NO_STREAM_CACHE, STREAMING_EDGE, streaming_function
from firesteel.pipeline.definition import FunctionDefinition
from firesteel.pipeline.distributions import FORWARD


def check_streaming(definitions: Iterable[FunctionDefinition], parallelism: Mapping[str, int]) -> None:
    """Raises InvalidPipeline, by function and line, for what a stream can't be made of; a master refuses it too."""
    groups: dict[str, FunctionDefinition] = {}
    places: dict[Labels, FunctionDefinition] = {}
    for definition in definitions:
        kind, count = definition.kind, parallelism[definition.name]
        if refusal := streaming_function(kind, definition.uid, count, definition.splits):
            raise definition.error(refusal)
        if definition.share == "cache":
            raise definition.error(NO_STREAM_CACHE)
        if definition.share == "store":
            raise definition.error(f"share='store': {STREAMING_EDGE}")
        for name, distribution in definition.distributions.items():
            if distribution != FORWARD:
                how = distribution.partitioner.value
                raise definition.error(f"input {name!r} is distributed by {how}: {STREAMING_EDGE}")
        groups.setdefault(definition.slot_sharing_group, definition)
        places.setdefault(definition.resources.labels, definition)
    if len(groups) > 1:
        first, second = list(groups.values())[:2]
        raise second.error(
            f"slot_sharing_group={second.slot_sharing_group!r}, and {first.name!r} has {first.slot_sharing_group!r}:"
            f" {STREAMING_EDGE}"
        )
    if len(places) > 1:
        first, second = list(places.values())[:2]
        theirs, others = labels_text(first.resources.labels), labels_text(second.resources.labels)
        raise second.error(f"on={others!r}, and {first.name!r} has on={theirs!r}: {STREAMING_EDGE}")


def computed_often(definitions: Sequence[FunctionDefinition]) -> tuple[str, ...]:
    """A sentence for each function of a streaming pipeline that several sinks compute, each for itself."""
    by_name = {definition.name: definition for definition in definitions}
    sinks: dict[str, list[str]] = {definition.name: [] for definition in definitions}
    for sink in definitions:
        if sink.kind is FunctionKind.SINK:
            for name in _before(sink, by_name):
                sinks[name].append(sink.name)
    return tuple(
        f"{name!r} is computed once for each of its sinks ({', '.join(readers)}): each is a query of its own, and reads its"
        " sources for itself; fs.fan_out writes several outputs by one query"
        for name, readers in sinks.items()
        if len(readers) > 1
    )


def _before(sink: FunctionDefinition, by_name: Mapping[str, FunctionDefinition]) -> list[str]:
    """Names of the functions that a sink's rows come from, each once."""
    seen: dict[str, None] = {}
    waiting = [sink]
    while waiting:
        for argument in waiting.pop().arguments:
            source = by_name.get(argument.name)
            if source is not None and source.name not in seen:
                seen[source.name] = None
                waiting.append(source)
    return list(seen)
