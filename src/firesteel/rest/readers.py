"""Which vertex has read what the Spark of its region has: a region runs as one query, and tells of itself once."""

from collections import defaultdict

from firesteel.model.ids import JobVertexID
from firesteel.model.jobgraph import FunctionKind
from firesteel.model.views import JobView, VertexView

_KINDS = frozenset(kind.value for kind in (FunctionKind.SOURCE, FunctionKind.SPLITS, FunctionKind.SCRIPT))


def readers(job: JobView) -> frozenset[JobVertexID]:
    """In each region its only vertex, or the only one that reads what was there before its region: a source, or a stored
    result. Of several nobody knows which has read what. The same rule as in core, for what has finished."""
    region_of = {vertex.id: vertex.first_region for vertex in job.vertices}
    fed = {edge.target for edge in job.edges if region_of.get(edge.source) != region_of.get(edge.target)}
    members = defaultdict[int, list[VertexView]](list)
    for vertex in job.vertices:
        members[vertex.first_region].append(vertex)
    found: list[JobVertexID] = []
    for region in members.values():
        reading = [each.id for each in region if each.id in fed or not _KINDS.isdisjoint(each.kinds)]
        if len(region) == 1:
            found.append(region[0].id)
        elif len(reading) == 1:
            found += reading
    return frozenset(found)
