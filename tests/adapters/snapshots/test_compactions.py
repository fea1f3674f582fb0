"""Copies of logs that Spark compacts: it finds each compaction that it looks for, however often a query begins anew."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.adapters.spark.streams.snapshots.pointfiles import log_files, pretended_compaction
from firesteel.adapters.spark.streams.snapshots.storefiles import Gone

DEFAULT = 10


def interval_of(names: set[str]) -> int:
    """Spark 4.3's `CompactibleFileStreamLog.compactInterval`."""
    compacted = sorted((int(each.partition(".")[0]) for each in names if each.endswith(".compact")), reverse=True)
    if len(compacted) > 1:
        return compacted[0] - compacted[1]
    if not compacted or compacted[0] + 1 <= DEFAULT:
        return compacted[0] + 1 if compacted else DEFAULT
    whole = compacted[0] + 1
    if whole // 2 > DEFAULT:
        return next((each for each in range(DEFAULT, whole // 2 + 1) if whole % each == 0), whole)
    return whole


def valid_batches(newest: int, interval: int) -> list[str]:
    """The files that Spark reads: `getAllValidBatches`."""
    start = max(0, (newest + 1) // interval * interval - 1)
    return [name_of(each, interval) for each in range(start, newest + 1)]


def name_of(batch: int, interval: int) -> str:
    return f"{batch}.compact" if (batch + 1) % interval == 0 else str(batch)


@given(st.lists(st.tuples(st.integers(1, 70), st.booleans()), min_size=1, max_size=6), st.booleans())
def test_a_query_finds_its_log_however_often_it_is_begun_anew(runs: list[tuple[int, bool]], cleans: bool) -> None:
    """Each run writes so many batches; then the log is copied, some with a batch that is planned. Spark may have deleted what is
    older than the last compaction."""
    log: set[str] = set()
    newest = -1
    for batches, has_planned in runs:
        interval = interval_of(log)
        if newest >= 0:
            assert set(valid_batches(newest, interval)) <= log
        for _ in range(batches):
            newest += 1
            log.add(name_of(newest, interval))
        if cleans:
            log = set(valid_batches(newest, interval))
        end = newest - 1 if has_planned and newest else newest
        taken = log_files(log, end, "sources/0") if set(valid_batches(end, interval)) <= log else None
        if taken is None:  # it was compacted beyond that point: a newer one is taken
            taken, end = log_files(log, newest, "sources/0"), newest
        planned = {name_of(newest, interval)} if end < newest else set()
        log = {*taken, *pretended_compaction(taken), *planned}


def test_what_is_pretended_is_never_read() -> None:
    names = ["39.compact", "40", "41"]
    (pretended,) = pretended_compaction(names)
    assert pretended == "29.compact"
    copy = [pretended, *names]
    assert log_files(copy, 41, "sources/0") == names
    with pytest.raises(Gone):
        log_files(copy, 29, "sources/0")


@pytest.mark.parametrize("names", [["0", "1"], ["9.compact"], ["19.compact", "20"], ["28.compact"]])
def test_nothing_is_pretended_where_spark_finds_it_by_itself(names: list[str]) -> None:
    assert pretended_compaction(names) == []
