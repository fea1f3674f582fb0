"""Options of functions that are set at submission."""

import pytest

import firesteel as fs
from firesteel.model.jobgraph import JobVertex
from firesteel.model.resources import UNSPECIFIED, ResourceProfile
from firesteel.pipeline.errors import InvalidPipeline
from tests.pipeline.test_graph import build, noops

PIPELINE = noops(
    fs.noop("words", parallelism=2, retries=1, timeout=5),
    fs.noop("counts", parallelism=2, inputs={"words": fs.hash_by("word")}, cpu=1, memory="1g"),
)


def built(**overrides: str) -> dict[str, JobVertex]:
    graph = build(PIPELINE, overrides={key.replace("__", "."): value for key, value in overrides.items()})
    return {vertex.name: vertex for vertex in graph.vertices}


def test_what_is_set_wins_and_all_else_stays() -> None:
    plain = built()
    changed = built(words__parallelism="4", words__timeout="120", counts__retries="0", counts__memory="2g")
    words, counts = changed["words"], changed["counts"]
    assert (words.parallelism, words.max_attempts, words.timeout_ms) == (4, 2, 120_000)
    assert (counts.parallelism, counts.max_attempts, counts.resources) == (2, 1, ResourceProfile(1.0, 2048))
    assert words.id == plain["words"].id, "the vertex is the same one"
    assert built() == plain, "the pipeline itself has not changed"


def test_labels_are_set_and_taken_back_and_sizes_stay() -> None:
    placed = noops(fs.noop("a", on="big", cpu=1, memory=512))
    for given, labels in (("gpu", ("gpu",)), ("", ())):
        (vertex,) = build(placed, overrides={"a.on": given}).vertices
        assert vertex.resources == ResourceProfile(1.0, 512, labels)
    (kept,) = build(placed, overrides={"a.cpu": "2"}).vertices
    assert kept.resources == ResourceProfile(2.0, 512, ("big",))


def test_placement_is_set_and_taken_back() -> None:
    changed = built(counts__slot_sharing_group="large", counts__co_location="near", words__co_location="near")
    assert (changed["counts"].slot_sharing_group, changed["counts"].co_location_group) == ("large", "near")
    assert (changed["words"].slot_sharing_group, changed["words"].co_location_group) == ("default", "near")
    placed = noops(fs.noop("a", slot_sharing_group="g", co_location="near", cpu=1, memory=512, timeout=5))
    (back,) = build(
        placed,
        overrides={
            "a.slot_sharing_group": "default",
            "a.co_location": "",
            "a.cpu": "0",
            "a.memory": "0",
            "a.timeout": "1.5 s",
        },
    ).vertices
    assert (back.slot_sharing_group, back.co_location_group, back.resources) == ("default", "", UNSPECIFIED)
    assert back.timeout_ms == 1_500


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("wrds.parallelism", "4", "there is no function 'wrds'; did you mean 'words'?"),
        ("words.paralelism", "4", "'paralelism' can't be set; did you mean 'parallelism'?"),
        ("words.uid", "w", "'uid' can't be set; there are parallelism, retries,"),
        ("parallelism", "4", "write FUNCTION.OPTION=VALUE, like words.retries=3"),
        ("words.parallelism", "many", "words.parallelism=many: must be a whole number"),
        ("words.parallelism", "0", "parallelism=0: must be a whole number of at least 1"),
        ("words.timeout", "soon", "timeout='soon': must be seconds above 0"),
        ("words.share", "maybe", "share='maybe': must be one of"),
        ("words.cpu", "1", "resources are only partially configured"),
        ("words.slot_sharing_group", "", "slot_sharing_group='': must be a text that is not empty"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_would(key: str, value: str, says: str) -> None:
    with pytest.raises(InvalidPipeline) as caught:
        build(PIPELINE, overrides={key: value})
    assert says in str(caught.value)
