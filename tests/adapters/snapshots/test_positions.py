"""What queries have read, told from their logs: equal where batches were others and the files the same."""

from pathlib import Path

from firesteel.adapters.spark.streams.snapshots.positions import POSITIONS_MAX, positions
from firesteel.client.comparison import common_point


def commit(checkpoint: Path, batch: int, *offsets: str, watermark_ms: int = 0) -> None:
    for directory in ("offsets", "commits"):
        (checkpoint / directory).mkdir(parents=True, exist_ok=True)
    (checkpoint / f"offsets/{batch}").write_text(
        "\n".join(["v1", f'{{"batchWatermarkMs":{watermark_ms},"conf":{{}}}}', *offsets])
    )
    (checkpoint / f"commits/{batch}").write_text("v1\n{}")


def entry(checkpoint: Path, name: str, *files: str) -> None:
    log = checkpoint / "sources/0"
    log.mkdir(parents=True, exist_ok=True)
    (log / name).write_text("\n".join(["v1", *(f'{{"path":"file:///in/{file}"}}' for file in files)]))


def test_files_count_and_not_their_batches(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for place, file in enumerate("abc"):
        entry(one, str(place), file)
        commit(one, place, f'{{"logOffset":{place}}}')
    entry(other, "0", "b", "a")
    entry(other, "1.compact", "a", "b", "c")
    entry(other, "2", "d")
    for place in range(3):
        commit(other, place + 5, f'{{"logOffset":{place}}}')
    first, second = ([each.read for each in positions(checkpoint)] for checkpoint in (one, other))
    assert first[1:] == second[:2]
    assert len({*first, *second}) == 4


def test_offsets_of_other_sources_are_compared_as_they_are(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    commit(one, 0, '{"t":{"0":4,"1":2}}', "-")
    commit(other, 3, '{"t": {"1": 2, "0": 4}}', "-")
    commit(other, 4, '{"t":{"0":5,"1":2}}', "7")
    (first,), (second, third) = positions(one), positions(other)
    assert (first.batch, second.batch) == (0, 3)
    assert first.read == second.read != third.read


def test_windows_that_a_batch_without_input_has_yet_to_write_make_a_difference(tmp_path: Path) -> None:
    """Both have read two offsets, in one batch or in two; only one has run the batch that writes what these have closed."""
    one, other = tmp_path / "one", tmp_path / "other"
    commit(one, 0, "2")
    commit(other, 0, "1")
    commit(other, 1, "2", watermark_ms=1_000)
    commit(other, 2, "2", watermark_ms=2_000)
    assert common_point(positions(one), positions(other)) == (0, 2), (
        "nothing waits for a watermark where there is no state"
    )
    for checkpoint in (one, other):
        (checkpoint / "state").mkdir()
    assert common_point(positions(one), positions(other)) is None
    commit(one, 1, "2", watermark_ms=2_000)
    assert common_point(positions(one), positions(other)) == (1, 2)


def test_what_has_gone_is_left_out(tmp_path: Path) -> None:
    assert positions(tmp_path / "nothing") == ()
    for batch in range(POSITIONS_MAX + 3):
        commit(tmp_path, batch, "1")
    (tmp_path / "offsets/50").unlink()
    found = [each.batch for each in positions(tmp_path)]
    assert found == [batch for batch in range(3, POSITIONS_MAX + 3) if batch != 50]
