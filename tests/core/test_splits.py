"""Handing out input splits: each once, in batches that shrink, near data first."""

from hypothesis import given
from hypothesis import strategies as st

from firesteel.core.scheduler.splits import DRAWS_PER_SUBTASK, SplitAssigner
from firesteel.model.splits import RangeInputSplit, SplitEnumeration

HOSTS = ("here", "there", "nowhere")


def enumeration(weights: list[int], hosts: list[tuple[str, ...]] | None = None, least: int = 1) -> SplitEnumeration:
    made = zip(weights, hosts or [()] * len(weights), strict=False)
    splits = (
        RangeInputSplit(weight=weight, hosts=near, lower=n, upper=n + 1, is_first=False, is_last=False)
        for n, (weight, near) in enumerate(made)
    )
    return SplitEnumeration(splits=tuple(splits), batch_weight=least)


WEIGHTS = st.lists(st.integers(1, 1_000), max_size=60)
PLACES = st.lists(st.sets(st.sampled_from(HOSTS)).map(lambda names: tuple(sorted(names))), min_size=60, max_size=60)


@given(WEIGHTS, PLACES, st.integers(1, 8), st.integers(1, 200), st.lists(st.sampled_from(HOSTS), min_size=1))
def test_every_split_is_in_one_draw(
    weights: list[int], places: list[tuple[str, ...]], subtasks: int, least: int, askers: list[str]
) -> None:
    assigner = SplitAssigner(enumeration(weights, places, least), (), subtasks)
    draws: list[tuple[int, ...]] = []
    while draw := assigner.draw(askers[len(draws) % len(askers)]):
        draws.append(draw)
    assert sorted(index for draw in draws for index in draw) == list(range(len(weights)))
    assert not assigner.draw("here")
    biggest = max(sum(weights) // (2 * subtasks), least, *weights, 1)
    assert all(sum(weights[index] for index in draw) <= biggest for draw in draws)


@given(st.integers(1, 3_000), st.integers(1, 16))
def test_draws_are_few_and_the_last_ones_small(count: int, subtasks: int) -> None:
    assigner = SplitAssigner(enumeration([1] * count), (), subtasks)
    sizes: list[int] = []
    while draw := assigner.draw(""):
        sizes.append(len(draw))
    assert len(sizes) <= 2 * DRAWS_PER_SUBTASK * subtasks
    assert sizes[-1] <= max(1, count // (DRAWS_PER_SUBTASK * subtasks))
    assert sizes == sorted(sizes, reverse=True) or sizes[:-1] == sorted(sizes[:-1], reverse=True)


@given(WEIGHTS, st.sets(st.integers(0, 59)), st.integers(1, 4))
def test_a_new_master_hands_out_the_rest(weights: list[int], taken: set[int], subtasks: int) -> None:
    drawn = sorted(index for index in taken if index < len(weights))
    assigner = SplitAssigner(enumeration(weights), drawn, subtasks)
    rest: list[int] = []
    while draw := assigner.draw(""):
        rest += draw
    assert sorted([*rest, *drawn]) == list(range(len(weights)))


def test_splits_near_the_asker_come_first() -> None:
    assigner = SplitAssigner(enumeration([1] * 6, [("here",), (), ("there", "here"), (), ("there",), ()]), (), 1)
    assert assigner.draw("there") == (2, 4, 0)
    assert assigner.draw("here") == (1,)
    assert assigner.draw("nowhere") == (3,)
