"""Times that are given with options."""

import pytest

from firesteel.cli.exits import CommandError
from firesteel.cli.settings import time_ms


@pytest.mark.parametrize(
    ("text", "ms"), [("100", 100_000), ("1.5", 1_500), ("90 s", 90_000), ("2 min", 120_000), ("20 ms", 20)]
)
def test_a_bare_number_is_one_of_seconds(text: str, ms: int) -> None:
    assert time_ms("--wait", text) == ms


@pytest.mark.parametrize("text", ["5x", "-5", ""])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match=f'--wait {text}: write seconds, or a time like "90 s"'):
        time_ms("--wait", text)
