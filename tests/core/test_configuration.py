"""Spellings of options: case, other words for a choice, and keys that were replaced."""

import pytest

from firesteel.model import options
from firesteel.model.labels import queue_labels_text
from firesteel.model.options import Configuration, ConfigurationError, parse_duration_ms, parse_memory_mib

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


def test_words_of_an_open_choice_are_known_in_any_case() -> None:
    assert Configuration({"high-availability.type": "NONE"}).get_option(options.HA_TYPE) == "none"
    assert (
        Configuration({"high-availability.type": "own.Module:Class"}).get_option(options.HA_TYPE) == "own.Module:Class"
    )


def test_a_cluster_may_be_named_as_in_flink() -> None:
    assert Configuration({"high-availability.cluster-id": "/etl"}).get_option(options.CLUSTER_ID) == "etl"


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("10", 10), ("1 m", 60_000), ("2 minutes", 120_000), ("50 sec", 50_000), ("1 Hour", 3_600_000), ("1.5 s", 1_500)],
)
def test_durations_have_flinks_units(text: str, milliseconds: int) -> None:
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "mebibytes"), [("512m", 512), ("10 mebibytes", 10), ("2 gb", 2048), ("1048576b", 1), ("3145728 bytes", 3)]
)
def test_sizes_have_flinks_units(text: str, mebibytes: int) -> None:
    assert parse_memory_mib(text) == mebibytes


@pytest.mark.parametrize("text", ["1 fortnight", "ten s", "-1 s", ""])
def test_no_other_duration(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}$"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("jobstore.expiration-time", "3600", 3_600_000),
        ("jobstore.cache-size", "52428800", 50),
        ("rest.server.max-content-length", "104857600", 100),
        ("rest.server.max-content-length", "1", 1),
        ("rest.server.max-content-length", "100m", 100),
    ],
)
def test_a_number_without_a_unit_has_that_of_flinks_option(key: str, text: str, value: int) -> None:
    option = options.option_of(key)
    assert option.parse(text) == value
    assert option.parse(option.default_text) == option.default


@pytest.mark.parametrize(
    ("key", "text", "least"),
    [
        ("taskmanager.numberOfTaskSlots", "0", 1),
        ("taskmanager.numberOfTaskSlots", "-2", 1),
        ("taskmanager.cpu.cores", "-0.5", 0),
        ("taskmanager.task-process.spares", "-1", 0),
        ("historyserver.archive.retained-jobs", "-2", -1),
    ],
)
def test_a_number_below_the_least_is_refused_by_the_options_name(key: str, text: str, least: int) -> None:
    with pytest.raises(ConfigurationError, match=f"^{key}: it has to be at least {least}, not {text}$"):
        Configuration({key: text})
    assert Configuration({key: str(least)}).get_option(options.option_of(key)) == least


def test_a_priority_may_be_any_number() -> None:
    assert Configuration({"job.priority": "-3"}).get_option(options.JOB_PRIORITY) == -3


def test_a_replaced_key_counts_where_its_successor_does_not_stand() -> None:
    former = Configuration({"restart-strategy": "fixed-delay"})
    assert dict(former) == {KEY: "fixed-delay"}
    both = Configuration({KEY: "off", "restart-strategy": "fixed-delay"})
    assert both.get_option(options.RESTART_STRATEGY) == "none"
    assert Configuration({KEY: "off"}).merged({"restart-strategy": "fixed-delay"}) == former
    with pytest.raises(ConfigurationError, match="restart-strategy"):
        Configuration({"restart-strategy": "sometimes"})


def test_labels_are_in_order_and_each_once() -> None:
    labels = Configuration({"taskmanager.labels": " gpu,big , gpu"}).get_option(options.TASKMANAGER_LABELS)
    assert labels == ("big", "gpu")
    queues = Configuration({"jobmanager.queue-labels": "ml=gpu, etl=big, ml = big"}).get_option(options.QUEUE_LABELS)
    assert queues == {"ml": ("big", "gpu"), "etl": ("big",)}
    assert options.QUEUE_LABELS.parse(queue_labels_text(queues)) == queues
    for wrong in ("a b", "-a", "a/b", "x" * 64, ",".join(f"l{number}" for number in range(17))):
        with pytest.raises(ConfigurationError, match="like big, or big, gpu"):
            Configuration({"taskmanager.labels": wrong})
    for wrong in ("etl", "etl=", "=big", "etl=a b", "etl=a+b"):
        with pytest.raises(ConfigurationError, match="like etl=big, ml=big, ml=gpu"):
            Configuration({"jobmanager.queue-labels": wrong})
