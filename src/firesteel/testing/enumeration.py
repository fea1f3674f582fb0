"""Input splits for fakes."""

from firesteel.model.splits import RangeInputSplit, SplitEnumeration


def range_enumeration(count: int, mark: str = "") -> SplitEnumeration:
    """Splits that are known by their lower ends, which are their places; `mark` comes with every draw."""
    splits = (RangeInputSplit(lower=n, upper=n + 1, is_first=not n, is_last=n == count - 1) for n in range(count))
    return SplitEnumeration(splits=tuple(splits), schema=mark)
