"""Sources of a stream that have changed places, or are elsewhere."""

import pytest

from firesteel.adapters.spark.streams.plans.fingerprints import broken_rules, fingerprint
from firesteel.adapters.spark.streams.plans.places import Place, place

PLAN = "== Physical Plan ==\nStreamingRelation FileSource[/in], [id#1L]\n"
A, B = place("json", ["/in"], {"pathGlobFilter": "a*"}), place("json", ["/in"], {"PathGlobFilter": "b*"})
ORDERS, USERS = place("kafka", [], {"subscribe": "orders"}), place("kafka", [], {"subscribe": "users"})


def broken(before: list[Place], now: list[Place]) -> list[str]:
    return broken_rules(*(fingerprint(PLAN, "append", "UTC", each) for each in (before, now)))


def files(path: str, **options: str) -> Place:
    return place("parquet", [path], options)


def test_sources_that_have_changed_places_are_refused() -> None:
    told, _ = broken([A, B], [B, A])
    assert told == "order of the sources: it was json /in pathglobfilter=a*, and is json /in pathglobfilter=b*"
    assert broken([ORDERS, USERS], [USERS, ORDERS])
    assert broken([ORDERS, USERS], [ORDERS, ORDERS]), "one goes on from the offsets of the other"
    assert broken([A, A, B], [A, B, A])


def test_what_may_change_of_a_source() -> None:
    assert broken([A, B], [A, B]) == []
    assert broken([ORDERS, USERS], [ORDERS, place("kafka", [], {"subscribe": "people"})]) == []
    assert broken([files("/in")], [files("/in", maxFilesPerTrigger="1")]) == []
    assert broken([], [A]) == [], "a savepoint that does not know"


@pytest.mark.parametrize("now", ["/in", "file:/in", "file:///in/", "/in/../in", "/"])
def test_a_directory_may_be_written_otherwise_and_be_one_above(now: str) -> None:
    assert broken([files("/in")], [files(now)]) == []


@pytest.mark.parametrize("now", [files("/in/2026*"), files("/other", basePath="/")])
def test_a_pattern_and_a_base_path_may_change(now: Place) -> None:
    assert broken([files("/in/2025*")], [now]) == []


@pytest.mark.parametrize(("before", "now"), [("/in", "/in2"), ("/in/", "/in/below"), ("s3a://b/in", "s3a://c/in")])
def test_files_elsewhere_are_refused(before: str, now: str) -> None:
    (told,) = broken([files(before)], [files(now)])
    assert told.startswith("directory of a source: it was parquet ")


def test_secrets_are_not_kept() -> None:
    found = place("kafka", [], {"subscribe": "t", "kafka.sasl.jaas.config": "password=hunter2"})
    assert "hunter2" not in str(found)
    assert "hunter2" not in str(place("json", ["s3a://u:hunter2@b/in"], {}))
