"""Fingerprints of plans that Spark 4.3 has explained (explained.txt), and of plans made up."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from firesteel.adapters.spark.streams.plans.fingerprints import VERSION, agreed, broken_rules, fingerprint
from firesteel.adapters.spark.streams.plans.plantext import EXPANSIONS_MAX, Columns, parsed, parts

EXPLAINED = dict(
    part.split("\n", 1)
    for part in f"\n{Path(__file__).with_name('explained.txt').read_text()}".split("\n===== ")
    if part.strip()
)


def read(name: str) -> Any:
    return msgspec.json.decode(fingerprint(EXPLAINED[name], "append"))


def operators(name: str) -> list[tuple[str, dict[str, list[str]]]]:
    return [(each["kind"], each["holds"]) for each in read(name)["operators"]]


def keyed(kind: str, *keys: str, rule: str = "grouping keys", **more: list[str]) -> Any:
    return kind, {rule: list(keys), **{name.replace("_", " "): each for name, each in more.items()}}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("agg", [keyed("aggregation", "upper(k)", "(v % 2)", aggregate_functions=["sum(v)"])]),
        ("window", [keyed("aggregation", "window(ts, 10 s, 10 s, 0 s)", "k", aggregate_functions=["count(1)"])]),
        (
            "sliding",
            [keyed("aggregation", "window(ts, 10 s, 5 s, 0 s)", "k", aggregate_functions=["count(1)", "sum(v)"])],
        ),
        (
            "session",
            [keyed("session aggregation", "session_window(ts, 10 seconds)", "k", aggregate_functions=["count(1)"])],
        ),
        (
            "dedup",
            [
                keyed("aggregation", "k", aggregate_functions=["count(1)"]),
                keyed("deduplication", "id", "k", rule="deduplication keys"),
            ],
        ),
        ("dedupw", [keyed("deduplication within the watermark", "id", rule="deduplication keys")]),
        ("distinct", [keyed("deduplication", "k", rule="deduplication keys")]),
        (
            "join",
            [
                keyed(
                    "join",
                    "id = id",
                    rule="join keys",
                    join_type=["LeftOuter"],
                    join_condition=["((ts >= ts) AND (ts <= ts + INTERVAL '05' MINUTE))"],
                    columns_kept_of_the_left_side=["id", "k", "ts"],
                    columns_kept_of_the_right_side=["id", "v", "ts"],
                )
            ],
        ),
        ("tws", [keyed("transformWithState", "lower(k)")]),
        ("apws", [keyed("applyInPandasWithState", "k")]),
        ("limit", [("limit", {})]),
        ("udf", [keyed("aggregation", "<lambda>(k)", aggregate_functions=["count(1)"])]),
        (
            "chained",
            [
                keyed("aggregation", "window(window_time(window), 5 s, 5 s, 0 s)", aggregate_functions=["sum(count)"]),
                keyed("aggregation", "window(ts, 1 s, 1 s, 0 s)", "k", aggregate_functions=["count(1)"]),
            ],
        ),
        ("stateless", []),
    ],
)
def test_what_state_is_made_of(name: str, found: list[Any]) -> None:
    assert operators(name) == found


def test_sources_are_known_by_their_formats() -> None:
    assert read("union")["sources"] == ["FileSource", "rate"]


@pytest.mark.parametrize("text", [EXPLAINED["sql"], "", "== Parsed Logical Plan ==\nFilter"])
def test_a_plan_that_can_not_be_read_is_compared_with_nothing(text: str) -> None:
    assert fingerprint(text, "append") == ""
    assert broken_rules("", fingerprint(EXPLAINED["agg"], "append")) == []
    assert broken_rules(fingerprint(EXPLAINED["agg"], "append"), fingerprint(text, "append")) == []


def test_one_of_a_later_version_is_compared_with_nothing() -> None:
    known = fingerprint(EXPLAINED["agg"], "append")
    later = msgspec.json.encode({**msgspec.json.decode(known), "version": VERSION + 1, "operators": []}).decode()
    assert broken_rules(later, known) == []


def counted(keys: str, functions: str, below: str = "") -> str:
    return f"""== Physical Plan ==
*(3) HashAggregate(keys=[{keys}], functions=[{functions}], output=[{keys}, n#9L])
+- StateStoreSave [{keys}], state info [ checkpoint = <unknown>, opId = 0], Append, 0, 0, 2
   +- *(1) HashAggregate(keys=[{keys}], functions=[partial_{functions}], output=[{keys}, n#9L])
{below}      +- StreamingRelation FileSource[/in], [k#1, v#2, n#3L]
"""


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        (
            counted("k#1", "count(1)"),
            counted("v#12", "count(1)"),
            "grouping keys of the aggregation: it was k, and is v",
        ),
        (
            counted("k#1", "sum(n#3L)"),
            counted("k#1", "max(n#3L)"),
            "aggregate functions of the aggregation: it was sum(n), and is max(n)",
        ),
        (
            EXPLAINED["window"],
            EXPLAINED["window"].replace("10000000)", "5000000)"),
            "it was window(ts, 10 s, 10 s, 0 s), k, and is window(ts, 5 s",
        ),
        (
            EXPLAINED["dedup"],
            EXPLAINED["distinct"],
            "stateful operators: it was aggregation, deduplication, and is dedup",
        ),
        (
            EXPLAINED["dedupw"],
            EXPLAINED["dedupw"].replace("Watermark [id#102L]", "Watermark [v#104L]"),
            "it was id, and is v",
        ),
        (
            EXPLAINED["join"],
            EXPLAINED["join"].replace("[id2#125L], Left", "[v#122L], Left"),
            "it was id = id, and is id = v",
        ),
        (
            EXPLAINED["join"],
            EXPLAINED["join"].replace("LeftOuter,", "Inner,"),
            "join type of the join: it was LeftOuter",
        ),
        (
            EXPLAINED["join"],
            EXPLAINED["join"].replace("Project [id#114L, k#115, ts#118]", "Project [id#114L, w#117L, ts#118]"),
            "columns kept of the left side of the join: it was id, k, ts, and is id, w, ts",
        ),
        (
            EXPLAINED["union"],
            EXPLAINED["union"].replace("Relation rate", "Relation kafka"),
            "sources: it was FileSource, rate",
        ),
    ],
)
def test_what_is_refused(before: str, now: str, words: str) -> None:
    broken = broken_rules(fingerprint(before, "update"), fingerprint(now, "update"))
    assert len(broken) == 1, broken
    assert words in broken[0]


def test_another_output_mode_is_refused_where_there_is_state() -> None:
    found = [fingerprint(EXPLAINED["agg"], mode) for mode in ("complete", "")]
    assert broken_rules(*found) == ["output mode: it was complete, and is append"]
    assert (
        broken_rules(fingerprint(EXPLAINED["stateless"], "append"), fingerprint(EXPLAINED["stateless"], "update")) == []
    )


def test_a_long_expression_is_shown_where_it_differs() -> None:
    columns = [f"column_{number}#{number + 20}" for number in range(100)]
    changed = [*columns[:90], "other#7", *columns[91:]]
    (told,) = broken_rules(
        fingerprint(counted(", ".join(columns), "count(1)"), ""),
        fingerprint(counted(", ".join(changed), "count(1)"), ""),
    )
    assert "column_90" in told
    assert "other" in told
    assert len(told) < 600


def test_a_filter_and_other_numbers_change_nothing() -> None:
    filtered = counted("k#71", "sum(n#73L)", "      +- *(1) Filter (n#73L > 1)\n").replace(
        "+- StreamingR", "   +- StreamingR"
    )
    assert broken_rules(fingerprint(counted("k#1", "sum(n#3L)"), ""), fingerprint(filtered, "")) == []


def test_columns_may_be_called_as_steps_of_an_aggregation_are() -> None:
    plans = [counted(f"{key}, merge_request_id#2", "sum(n#3L)") for key in ("k#1", "other#1")]
    (told,) = broken_rules(*(fingerprint(plan, "") for plan in plans))
    assert "grouping keys of the aggregation: it was k, merge_request_id, and is other, merge_request_id" in told


def test_a_column_is_what_it_was_made_of() -> None:
    plan = counted(
        "key#5",
        "count(1)",
        "      +- Project [concat(a b#4, ,, x) AS key#5]\n         +- Project [upper(k#1) AS a b#4]\n",
    )
    assert msgspec.json.decode(fingerprint(plan, ""))["operators"][0]["holds"]["grouping keys"] == [
        "concat(upper(k), ,, x)"
    ]


def test_a_column_is_written_out_once_however_many_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of a chain of `when(col("k").isNull(), "x").otherwise(col("k"))` names the one before twice."""
    steps = range(40, 1, -1)
    chain = "".join(
        f"+- Project [CASE WHEN isnull(k#{step - 1}) THEN x ELSE k#{step - 1} END AS k#{step}]\n" for step in steps
    )
    asked, origin = [], Columns.origin

    def counted_origin(self: Columns, *given: Any) -> str:
        asked.append(given)
        assert len(asked) < 100, "each column once"
        return origin(self, *given)

    monkeypatch.setattr(Columns, "origin", counted_origin)
    root = parsed(f"== Physical Plan ==\nUnion\n{chain}+- StreamingRelation rate, [k#1]")
    assert root is not None
    assert Columns(root).origin("k#3") == (
        "CASE WHEN isnull(CASE WHEN isnull(k) THEN x ELSE k END) THEN x ELSE CASE WHEN isnull(k) THEN x ELSE k END END"
    )
    assert len(Columns(root).origin("k#40")) == EXPANSIONS_MAX


def test_a_column_that_is_named_in_what_it_is_made_of_is_written_out_once() -> None:
    root = parsed("== Physical Plan ==\nProject [(a#1 + b#2) AS a#1]\n+- StreamingRelation rate, [b#2]")
    assert root is not None
    assert Columns(root).origin("a#1") == "(a + b)"


def test_a_literal_of_several_lines_belongs_to_its_operator() -> None:
    root = parsed("== Physical Plan ==\nProject [split(k#1, a\nb) AS s#2]\n+- StreamingRelation rate, [k#1]\n\nmore")
    assert root is not None
    assert [node.name for node in root.walk()] == ["Project", "StreamingRelation"]
    assert Columns(root).origin("s#2") == "split(k, a\nb)"


def test_parts() -> None:
    assert parts("") == []
    assert parts("a, f(b, c), [d, {e, f}]") == ["a", "f(b, c)", "[d, {e, f}]"]


def test_objects_of_a_jvm_are_the_same_in_another() -> None:
    plans = [
        counted("k#1", f"org.example.Sum@{number}(n#3L)").replace("[/in]", f".{number}@{number}")
        for number in ("1a2b3c4d", "77f0")
    ]
    assert "@" not in fingerprint(plans[0], "")
    assert (
        broken_rules(fingerprint(plans[0].replace(".1a2b3c4d", ""), ""), fingerprint(plans[1].replace(".77f0", ""), ""))
        == []
    )


@pytest.mark.parametrize(
    "made",
    [
        "FLOOR((rand({}) * 8.0))",
        "randn({})",
        "uuid(Some({}))",
        "shuffle(v#2, Some({}))",
        "randstr(5, {}, true)",
        "concat(uuid(Some({})), a)",
    ],
)
def test_seeds_are_not_compared(made: str) -> None:
    below = "      +- Project [k#1, {} AS salt#5]\n"
    plans = [
        fingerprint(counted(f"{key}, salt#5", "count(1)", below.format(made.format(seed))), "")
        for key, seed in (("k#1", "5210953128790321"), ("k#1", "-77"), ("v#2", "-77"))
    ]
    assert broken_rules(plans[0], plans[1]) == []
    assert "grouping keys of the aggregation: it was k, " in broken_rules(plans[0], plans[2])[0]


def test_rules_that_an_instant_is_part_of_are_not_compared() -> None:
    def explained(instant: str) -> str:
        columns = "Project [id#114L, k#115, ts#118]"
        assert columns in EXPLAINED["join"]
        return fingerprint(EXPLAINED["join"].replace(columns, f"Project [id#114L, {instant} AS n#999, ts#118]"), "")

    saved = agreed(explained("2026-01-01 00:00:00.1"), explained("2026-01-01 00:00:00.2"))
    (operator,) = msgspec.json.decode(saved)["operators"]
    assert "columns kept of the left side" not in operator["holds"]
    assert "columns kept of the right side" in operator["holds"]
    later = agreed(explained("2026-02-01 00:00:00.3"), explained("2026-02-01 00:00:00.4"))
    assert broken_rules(saved, later) == []
    assert broken_rules(saved, explained("2026-02-01 00:00:00.3")) == []
    assert broken_rules(explained("2026-02-01 00:00:00.3"), saved) == []


def test_two_plans_that_have_nothing_in_common_are_compared_with_nothing() -> None:
    one = fingerprint(EXPLAINED["agg"], "")
    assert agreed(one, one) == one
    assert [agreed(one, ""), agreed("", one), agreed(one, fingerprint(EXPLAINED["dedup"], ""))] == ["", "", ""]


@pytest.mark.parametrize("key", ["2026-11-23 AS day#5", "day#5"])
def test_keys_with_a_literal_are_not_compared(key: str) -> None:
    below = "      +- Project [k#1, 2026-11-23 AS day#5]\n"
    plan = counted(f"k#1, {key}", "count(1)", below)
    assert list(msgspec.json.decode(fingerprint(plan, ""))["operators"][0]["holds"]) == ["aggregate functions"]
    assert broken_rules(fingerprint(plan, ""), fingerprint(plan.replace("-23", "-24"), "")) == []


def test_keys_of_which_some_are_missing_are_not_compared() -> None:
    plan = counted("k#1", "count(1)").replace("StateStoreSave [k#1]", "StateStoreSave [k#1, day#5]")
    assert list(msgspec.json.decode(fingerprint(plan, ""))["operators"][0]["holds"]) == ["aggregate functions"]
    without = counted("k#1", "count(1)").replace("HashAggregate", "Other")
    assert msgspec.json.decode(fingerprint(without, ""))["operators"][0]["holds"] == {}


GENERATED = """== Physical Plan ==
*(4) HashAggregate(keys=[w#3], functions=[count(1)])
+- StateStoreSave [w#3], state info [ opId = 0 ], Append, 2
   +- *(1) HashAggregate(keys=[w#3], functions=[partial_count(1)])
      +- *(1) Generate {made}
         +- *(1) Project [ts#1L, user#0]
            +- StreamingRelation FileSource[in], [user#0, ts#1L]
"""


@pytest.mark.parametrize(
    ("made", "key"),
    [
        ("explode(split(user#0,  , -1)), false, [w#3]", "explode(split(user,  , -1))"),
        ("explode(split(user#0, \\(, -1)), true, [w#3]", "explode(split(user, \\(, -1)) outer"),
        ("posexplode(split(user#0, [,], -1)), [ts#1L], false, [pos#2, w#3]", "posexplode(split(user, [,], -1))[1]"),
        ("stack(2, user#0, ts#1L, x, 5), false, [w#3, n#4L]", "stack(2, user, ts, x, 5)[0]"),
    ],
)
def test_a_column_of_a_generator_is_what_that_makes_of_others(made: str, key: str) -> None:
    """Its text may have any marks in it, as those of a regular expression."""
    found = msgspec.json.decode(fingerprint(GENERATED.format(made=made), ""))
    assert found["operators"][0]["holds"]["grouping keys"] == [key]


UNITED = """== Physical Plan ==
StreamingDeduplicate [{key}], state info [ opId = 0 ], 2
+- *(1) Union
   :- *(1) Project [{first}]
   :  +- StreamingRelation FileSource[in], [user#0, ts#1L]
   :- *(1) Filter isnotnull(user#0)
   :  +- *(1) Project [{second}]
   :     +- StreamingRelation FileSource[in], [user#0, ts#1L]
   +- *(1) Generate explode(names#7), [ts#6L], false, [name#8]
      +- StreamingRelation FileSource[in], [ts#6L, names#7]
"""


@pytest.mark.parametrize(
    ("key", "first", "second", "found"),
    [
        ("user#0", "ts#1L, user#0", "ts#1L, upper(user#0) AS user#32", "user | upper(user) | explode(names)"),
        ("ts#1L", "ts#1L, user#0", "ts#1L, upper(user#0) AS user#32", "ts"),
        ("u#9", "ts#1L, lower(user#0) AS u#9", "ts#1L, a AS u#32", "lower(user) | a | explode(names)"),
        ("u#9", "ts#1L, a AS u#9", "ts#1L, b AS u#32", "a | b | explode(names)"),
    ],
)
def test_a_column_of_a_union_is_what_it_is_in_each_part(key: str, first: str, second: str, found: str) -> None:
    """Spark gives it the number that it has in the first."""
    plan = UNITED.format(key=key, first=first, second=second)
    assert msgspec.json.decode(fingerprint(plan, ""))["operators"][0]["holds"]["deduplication keys"] == [found]


@pytest.mark.parametrize("kind", ["date", "timestamp", "string"])
def test_casts_are_compared_with_the_time_zone_that_they_depend_on(kind: str) -> None:
    plan = GENERATED.format(made=f"explode(cast(ts#1L as {kind})), false, [w#3]")
    (told,) = broken_rules(fingerprint(plan, "", "UTC"), fingerprint(plan, "", "Asia/Kolkata"))
    assert told == "time zone of the session of the aggregation: it was UTC, and is Asia/Kolkata"
    assert broken_rules(fingerprint(plan, "", "UTC"), fingerprint(plan, "", "UTC")) == []
    without = plan.replace(f"as {kind})", "as double)")
    assert broken_rules(fingerprint(without, "", "UTC"), fingerprint(without, "", "Asia/Kolkata")) == []
