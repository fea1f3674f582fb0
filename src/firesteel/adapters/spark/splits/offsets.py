"""Ranges of a topic's offsets: which there are, how they are cut, and how Spark is told of them. Pure."""

import json
from collections.abc import Mapping, Sequence

import msgspec

from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.model.splits import KafkaInputSplit
from firesteel.pipeline.kafkasplits import EARLIEST, LATEST, Limit

TopicPartition = tuple[str, int]
Offsets = Mapping[TopicPartition, int]


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What the brokers have of each partition: offsets `earliest` <= offset < `latest`."""

    earliest: Offsets
    latest: Offsets


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """An end of what is to be read. `at_time`: the first offsets of a limit that is a time; those of no such record are
    left out."""

    limit: Limit
    at_time: Offsets = {}


def whole_ranges(bounds: Bounds, starting: Wanted, ending: Wanted) -> list[KafkaInputSplit]:
    """One range for each partition that has something to read. Raises PipelineRefused for offsets that are not there."""
    starts, ends = _placed(starting, bounds, bounds.earliest), _placed(ending, bounds, bounds.latest)
    found = []
    for partition in sorted(bounds.latest):
        name, start, end = f"{partition[0]}-{partition[1]}", starts[partition], ends[partition]
        _check(name, start, end, (bounds.earliest[partition], bounds.latest[partition]))
        if start < end:
            found.append(_split(partition, start, end))
        elif start > end and isinstance(ending.limit, dict):
            raise PipelineRefused(f"kafka_splits: {name} is to be read from offset {start} until before {end}")
    return found


def cut(ranges: Sequence[KafkaInputSplit], limit: int) -> tuple[KafkaInputSplit, ...]:
    """Pieces of `limit` offsets at the most, about equal within a partition; the largest first, and of equal ones those that
    partitions begin with, so that a draw has something of each."""
    pieces = []
    for whole in ranges:
        count = -(-whole.weight // limit)
        cuts = [whole.start + whole.weight * index // count for index in range(count + 1)]
        pieces += [
            (index, _split((whole.topic, whole.partition), cuts[index], cuts[index + 1])) for index in range(count)
        ]
    pieces.sort(key=lambda piece: (-piece[1].weight, piece[0], piece[1].topic, piece[1].partition))
    return tuple(split for _, split in pieces)


def rounds(splits: Sequence[KafkaInputSplit]) -> list[list[KafkaInputSplit]]:
    """The same offsets in reads of at most one range a partition, as Spark can do them; neighbours are joined."""
    joined: dict[TopicPartition, list[KafkaInputSplit]] = {}
    for split in sorted(splits, key=lambda each: (each.topic, each.partition, each.start)):
        partition = (split.topic, split.partition)
        known = joined.setdefault(partition, [])
        if known and known[-1].end == split.start:
            known[-1] = _split(partition, known[-1].start, split.end)
        else:
            known.append(split)
    count = max(map(len, joined.values()), default=0)
    return [[ranges[number] for ranges in joined.values() if number < len(ranges)] for number in range(count)]


def spark_options(ranges: Sequence[KafkaInputSplit]) -> dict[str, str]:
    """How Spark's Kafka source is told to read just these, one a partition."""
    partitions: dict[str, list[int]] = {}
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for each in ranges:
        partitions.setdefault(each.topic, []).append(each.partition)
        starts.setdefault(each.topic, {})[str(each.partition)] = each.start
        ends.setdefault(each.topic, {})[str(each.partition)] = each.end
    return {
        "assign": json.dumps(partitions),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
    }


def _placed(wanted: Wanted, bounds: Bounds, otherwise: Offsets) -> Offsets:
    match wanted.limit:
        case str() as name:
            assert name in (EARLIEST, LATEST), "a limit has been read"
            return bounds.earliest if name == EARLIEST else bounds.latest
        case int():
            return {**bounds.latest, **wanted.at_time}
        case given:
            flat = {(topic, number): offset for topic, own in given.items() for number, offset in own.items()}
            unknown = next((partition for partition in flat if partition not in bounds.latest), None)
            if unknown is not None:
                raise PipelineRefused(
                    f"kafka_splits: offsets are given for {unknown[0]}-{unknown[1]}, which is not read"
                )
            return {**otherwise, **flat}


def _check(name: str, start: int, end: int, known: tuple[int, int]) -> None:
    earliest, latest = known
    if start < earliest:
        raise PipelineRefused(
            f"kafka_splits: {name} is to be read from offset {start}, but Kafka has removed what was before {earliest}"
            " (retention)"
        )
    if max(start, end) > latest:
        raise PipelineRefused(f"kafka_splits: {name} ends before offset {latest}, and {max(start, end)} is asked for")


def _split(partition: TopicPartition, start: int, end: int) -> KafkaInputSplit:
    return KafkaInputSplit(topic=partition[0], partition=partition[1], start=start, end=end, weight=end - start)
