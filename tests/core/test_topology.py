"""Pipelined regions, against a union-find over every subtask edge."""

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from firesteel.core.execution import topology
from firesteel.core.execution.topology import Topology
from firesteel.model.jobgraph import InvalidJobGraph, JobGraph
from firesteel.model.resources import UNSPECIFIED, ResourceProfile
from tests.core.graphs import explicit_edges, explicit_subtasks, graph_texts, job


def naive_regions(graph: JobGraph) -> set[frozenset[str]]:
    """Subtasks joined by pipelined edges, found one edge at a time."""
    group = {subtask: {subtask} for subtask in explicit_subtasks(graph)}
    for source, target, blocking in explicit_edges(graph):
        if not blocking and group[source] is not group[target]:
            group[source] |= group[target]
            for member in group[target]:
                group[member] = group[source]
    return {frozenset(members) for members in group.values()}


def regions(found: Topology) -> set[frozenset[str]]:
    """What the topology says: the subtasks of each region."""
    return {
        frozenset(f"{vertex.id}/{subtask}" for vertex in logical.vertices)
        for logical in found.logical
        for subtask in range(logical.parallelism)
    }


def region_of(found: Topology, subtask: str) -> int:
    name, _, index = subtask.partition("/")
    return next(region.offset for key, region in found.by_vertex.items() if key == name) + int(index)


def built(text: str) -> Topology:
    """The topology of a graph; a drawn one whose regions wait in a circle is no example."""
    try:
        return Topology(job(text))
    except InvalidJobGraph:
        assume(False)
        raise


@given(graph_texts())
def test_regions_are_what_pipelined_edges_join(text: str) -> None:
    found = built(text)
    assert regions(found) == naive_regions(found.graph)
    assert found.region_count == len(naive_regions(found.graph))


@given(graph_texts())
def test_producers_come_before_their_consumers(text: str) -> None:
    found = built(text)
    for source, target, blocking in explicit_edges(found.graph):
        ends = region_of(found, source), region_of(found, target)
        assert ends[0] < ends[1] if blocking else ends[0] == ends[1]


@given(graph_texts(arrows="|> =>"))
def test_blocking_edges_never_make_a_circle(text: str) -> None:
    assert Topology(job(text)).region_count == len(explicit_subtasks(job(text)))


@given(graph_texts())
def test_inputs_and_consumers_are_two_views_of_one_edge(text: str) -> None:
    logical = built(text).logical
    given_ = [(item.producer, region.index, item.all_to_all) for region in logical for item in region.inputs]
    taken = [(region.index, target, all_to_all) for region in logical for target, all_to_all in region.consumers]
    assert sorted(given_) == sorted(taken)


@given(graph_texts(), st.data())
def test_split_parts_regions_by_their_logical_region(text: str, data: st.DataObject) -> None:
    found = built(text)
    chosen = np.array(sorted(data.draw(st.sets(st.integers(0, found.region_count - 1)))), dtype=np.int64)
    parts = found.split(chosen)
    assert [region for _, part in parts for region in part.tolist()] == chosen.tolist()
    assert [logical.index for logical, _ in parts] == sorted({found.logical_of(int(r)).index for r in chosen})
    assert all(set(part.tolist()) <= set(logical.regions().tolist()) for logical, part in parts)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a*2 -> b*3", "a -> b joins subtasks of equal index, but parallelism is 2 and 3"),
        ("a*2 |> b*3", "a -> b joins subtasks of equal index, but parallelism is 2 and 3"),
        ("a*2 ~> b*2", "a -> b goes from all subtasks to all: it must be blocking"),
        ("a -> b; a => c -> b", "regions wait for one another in a circle: a"),
        ("a*0", "the job has 0 regions"),
    ],
)
def test_what_can_not_run_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidJobGraph, match=message):
        Topology(job(text))


def test_a_job_has_a_bounded_number_of_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology, "MAX_REGIONS", 3)
    assert Topology(job("a*3")).region_count == 3
    with pytest.raises(InvalidJobGraph, match="the job has 4 regions; 1 to 3 are possible"):
        Topology(job("a*4"))


def test_vertices_of_a_region_keep_the_graphs_order() -> None:
    found = Topology(job("a; b; c; c -> d; b -> c; a -> d"))
    assert [[vertex.name for vertex in region.vertices] for region in found.logical] == [["a", "b", "c", "d"]]


def test_a_region_asks_for_a_slot_that_holds_each_of_its_vertices() -> None:
    """The largest amount of each, and not of the vertex that comes last by cores."""
    graph = job("a -> b -> c => d")
    sizes = (ResourceProfile(2.0, 512), ResourceProfile(1.0, 4_096), UNSPECIFIED, ResourceProfile(1.0, 64))
    sized = (msgspec.structs.replace(each, resources=size) for each, size in zip(graph.vertices, sizes, strict=True))
    first, second = Topology(msgspec.structs.replace(graph, vertices=tuple(sized))).logical
    assert (first.resources, second.resources) == (ResourceProfile(2.0, 4_096), ResourceProfile(1.0, 64))


def test_a_diamond_of_pipelined_edges_is_one_region() -> None:
    found = Topology(job("a*2 -> b*2 -> d*2; a -> c*2 -> d"))
    assert regions(found) == {frozenset(f"{name}/{i}" for name in "abcd") for i in range(2)}


def grouped(text: str, **options: str) -> JobGraph:
    """A graph whose vertices are in the slot sharing group or co-location group given by name, as `kind/name`."""
    graph = job(text)
    vertices = []
    for vertex in graph.vertices:
        kind, _, name = options.get(vertex.name, "").partition("/")
        change: dict[str, dict[str, object]] = {
            "share": {"slot_sharing_group": name},
            "near": {"co_location_group": name},
            "on": {"resources": UNSPECIFIED.labelled((name,))},
        }
        vertices.append(msgspec.structs.replace(vertex, **change.get(kind, {})))
    return msgspec.structs.replace(graph, vertices=tuple(vertices))


def test_slot_sharing_groups_are_never_in_one_region() -> None:
    assert Topology(grouped("a |> b", a="share/x")).region_count == 2
    with pytest.raises(InvalidJobGraph, match="a -> b joins two slot sharing groups: it must be blocking"):
        Topology(grouped("a -> b", a="share/x"))


def test_functions_with_other_labels_are_never_in_one_region() -> None:
    assert Topology(grouped("a |> b", a="on/x")).region_count == 2
    with pytest.raises(InvalidJobGraph, match="a -> b joins functions that run on differently labelled workers"):
        Topology(grouped("a -> b", a="on/x"))
    together = Topology(grouped("a -> b |> c", a="on/x", b="on/x", c="on/x"))
    assert [logical.resources for logical in together.logical] == [UNSPECIFIED.labelled(("x",))] * 2


def test_subtasks_are_near_co_located_ones_and_the_one_producer_they_read() -> None:
    found = Topology(grouped("a*2 |> b*2 => c*2; d*2 |> c", a="near/x", c="near/x"))
    names = {logical.offset: logical.vertices[0].name for logical in found.logical}
    mates = {logical.vertices[0].name: [names[each] for each in logical.mates] for logical in found.logical}
    assert mates == {"a": ["c"], "b": ["a"], "c": ["a", "d"], "d": []}
    with pytest.raises(InvalidJobGraph, match=r"co-location group x: parallelism must be equal, and is \[2, 3\]"):
        Topology(grouped("a*2 => b*3", a="near/x", b="near/x"))
