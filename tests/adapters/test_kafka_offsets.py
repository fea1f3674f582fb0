"""Ranges of Kafka's offsets: found, cut and put together again, without Kafka."""

import itertools
import json
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.adapters.spark.splits.offsets import Bounds, Wanted, cut, rounds, spark_options, whole_ranges
from firesteel.model.splits import KafkaInputSplit
from firesteel.pipeline.kafkasplits import EARLIEST, LATEST, Limit, read_limit

BOUNDS = Bounds(earliest={("t", 0): 5, ("t", 1): 0}, latest={("t", 0): 20, ("t", 1): 7})
BEGIN, END = Wanted(limit=EARLIEST), Wanted(limit=LATEST)


def split(topic: str, partition: int, start: int, end: int) -> KafkaInputSplit:
    return KafkaInputSplit(topic=topic, partition=partition, start=start, end=end, weight=end - start)


def offsets_of(splits: Sequence[KafkaInputSplit]) -> list[tuple[str, int, int]]:
    return sorted((each.topic, each.partition, n) for each in splits for n in range(each.start, each.end))


def found(starting: Wanted = BEGIN, ending: Wanted = END) -> list[tuple[int, int, int]]:
    return [(each.partition, each.start, each.end) for each in whole_ranges(BOUNDS, starting, ending)]


WHOLE = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.integers(0, 2**40), st.integers(1, 300)),
    unique_by=lambda each: each[:2],
).map(lambda parts: [split(topic, number, start, start + size) for topic, number, start, size in parts])


@given(WHOLE, st.integers(1, 100))
def test_pieces_have_every_offset_once_and_no_more_than_the_limit(ranges: list[KafkaInputSplit], limit: int) -> None:
    pieces = cut(ranges, limit)
    assert offsets_of(pieces) == offsets_of(ranges)
    assert all(0 < each.weight == each.end - each.start <= limit for each in pieces)
    assert [each.weight for each in pieces] == sorted((each.weight for each in pieces), reverse=True)
    for whole in ranges:
        sizes = [each.weight for each in pieces if (each.topic, each.partition) == (whole.topic, whole.partition)]
        assert max(sizes) - min(sizes) <= 1


@given(WHOLE, st.integers(1, 100), st.randoms())
def test_any_pieces_are_read_in_rounds_of_one_range_a_partition(
    ranges: list[KafkaInputSplit], limit: int, chance: random.Random
) -> None:
    pieces = [each for each in cut(ranges, limit) if chance.random() < 0.6]
    chance.shuffle(pieces)
    reads = rounds(pieces)
    assert offsets_of([each for read in reads for each in read]) == offsets_of(pieces)
    joined: dict[tuple[str, int], list[KafkaInputSplit]] = {}
    for read in reads:
        partitions = [(each.topic, each.partition) for each in read]
        assert len(partitions) == len(set(partitions))
        for each in read:
            joined.setdefault((each.topic, each.partition), []).append(each)
        options = {name: json.loads(text) for name, text in spark_options(read).items()}
        assert {(topic, each) for topic, those in options["assign"].items() for each in those} == set(partitions)
        told = {
            (topic, int(number), start, options["endingOffsets"][topic][number])
            for topic, those in options["startingOffsets"].items()
            for number, start in those.items()
        }
        assert told == {(each.topic, each.partition, each.start, each.end) for each in read}
    assert len(reads) == max(map(len, joined.values()), default=0)
    for own in joined.values():
        assert all(one.end < other.start for one, other in itertools.pairwise(own)), "neighbours are joined"


def test_limits_by_name_time_and_offset() -> None:
    assert found() == [(0, 5, 20), (1, 0, 7)]
    at_time = Wanted(limit=1_700_000_000_000, at_time={("t", 0): 9})
    assert found(starting=at_time) == [(0, 9, 20)], "partition 1 has no record of that time or later"
    assert found(ending=at_time) == [(0, 5, 9), (1, 0, 7)]
    assert found(Wanted(limit={"t": {1: 3}}), Wanted(limit={"t": {0: 6, 1: 3}})) == [(0, 5, 6)]


@pytest.mark.parametrize(
    ("starting", "ending", "sentence"),
    [
        ({"t": {0: 4}}, LATEST, "t-0 is to be read from offset 4, but Kafka has removed what was before 5"),
        ({"t": {0: 21}}, LATEST, "t-0 ends before offset 20, and 21 is asked for"),
        (EARLIEST, {"t": {1: 8}}, "t-1 ends before offset 7, and 8 is asked for"),
        (EARLIEST, {"t": {0: 4}}, "t-0 is to be read from offset 5 until before 4"),
        ({"t": {2: 0}}, LATEST, "offsets are given for t-2, which is not read"),
    ],
)
def test_offsets_that_are_not_there_are_refused(starting: Limit, ending: Limit, sentence: str) -> None:
    with pytest.raises(PipelineRefused, match=sentence):
        found(Wanted(limit=starting), Wanted(limit=ending))


def test_what_texts_mean() -> None:
    assert read_limit("starting", " earliest ") == EARLIEST
    assert read_limit("ending", "latest") == LATEST
    assert read_limit("starting", "2026-01-31T00:00:00+01:00") == read_limit("ending", "2026-01-30T23:00:00Z")
    assert read_limit("starting", "1970-01-01T00:00:01Z") == 1000
    assert read_limit("ending", '{"t": {"0": 12}}') == {"t": {0: 12}}


@pytest.mark.parametrize(
    ("argument", "text", "sentence"),
    [
        ("starting", "latest", "would read nothing"),
        ("ending", "earliest", "would read nothing"),
        ("starting", "yesterday", "is neither 'earliest', nor a time"),
        ("ending", "2026-01-31", "has no time zone"),
        ("ending", '{"t": {"0": -1}}', "offsets are written like"),
        ("ending", '{"t": 3}', "offsets are written like"),
        ("ending", "{t", "offsets are written like"),
    ],
)
def test_texts_that_mean_nothing(argument: str, text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_limit(argument, text)
