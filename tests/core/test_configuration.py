"""Spellings of options: case, other words for a choice, and keys that were replaced."""

import pytest

from firesteel.model import options
from firesteel.model.options import Configuration, ConfigurationError

KEY = options.RESTART_STRATEGY.key


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("none", "none"),
        ("OFF", "none"),
        ("disable", "none"),
        ("FixedDelay", "fixed-delay"),
        ("Fixed-Delay", "fixed-delay"),
    ],
)
def test_a_choice_has_other_words_and_case_does_not_matter(text: str, meant: str) -> None:
    assert Configuration({KEY: text}).get_option(options.RESTART_STRATEGY) == meant
    assert Configuration({"jobstore.type": "memory"}).get_option(options.JOBSTORE_TYPE) == "Memory"
    assert (
        Configuration({"jobmanager.execution.failover-strategy": "Full"}).get_option(options.FAILOVER_STRATEGY)
        == "full"
    )


def test_no_other_word_is_a_choice() -> None:
    with pytest.raises(ConfigurationError, match=f"{KEY}: 'sometimes' is none of none, fixed-delay, failure-rate, "):
        Configuration({KEY: "sometimes"})


def test_a_replaced_key_counts_where_its_successor_does_not_stand() -> None:
    former = Configuration({"restart-strategy": "fixed-delay"})
    assert dict(former) == {KEY: "fixed-delay"}
    both = Configuration({KEY: "off", "restart-strategy": "fixed-delay"})
    assert both.get_option(options.RESTART_STRATEGY) == "none"
    assert Configuration({KEY: "off"}).merged({"restart-strategy": "fixed-delay"}) == former
    with pytest.raises(ConfigurationError, match="restart-strategy"):
        Configuration({"restart-strategy": "sometimes"})
