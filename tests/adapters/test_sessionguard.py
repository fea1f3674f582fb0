"""How often a guard calls in on sessions."""

import pytest

from firesteel.adapters.spark.task.sessionguard import CALL_IN_SECONDS, SHORTEST_SECONDS, call_in_seconds


@pytest.mark.parametrize(
    ("timeout", "seconds"),
    [
        ("15s", 5.0),
        ("15000", 5.0),
        ("1m", 20.0),
        ("60m", CALL_IN_SECONDS),
        ("0", SHORTEST_SECONDS),
        ("-1", CALL_IN_SECONDS),
        ("", CALL_IN_SECONDS),
    ],
)
def test_at_a_third_of_the_servers_patience(timeout: str, seconds: float) -> None:
    assert call_in_seconds(timeout) == seconds
