"""Sinks that nothing makes transactional are told at submission; those that are, are not."""

import functools
from typing import Any

import pytest

import firesteel as fs
from firesteel.pipeline.transactions import warnings

renamed = fs.write_text
by_form = {"csv": fs.write_csv, "json": fs.write_json}
in_turn = (lambda rows: fs.write_csv(rows, "out"),)
with_arguments = functools.partial(fs.write_parquet, path="out")


def saves(frame: Any) -> None:
    later(frame)


def later(frame: Any) -> None:
    fs.write_json(frame, "out")


class Writer:
    def save(self, frame: Any) -> None:
        def inside() -> None:
            fs.write_csv(frame, "out")

        inside()


def decorated(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*arguments: Any) -> Any:
        return function(*arguments)

    return wrapper


def direct(rows: Any) -> None:
    fs.write_parquet(rows, "out")


def by_another_name(rows: Any) -> None:
    renamed(rows, "out")


def through_functions(rows: Any) -> None:
    saves(rows)


def through_a_class(rows: Any) -> None:
    Writer().save(rows)


@decorated
def under_a_decorator(rows: Any) -> None:
    fs.write_jdbc(rows, "jdbc:postgresql://x/y", "t")


def by_a_name_made_as_it_runs(rows: Any) -> None:
    getattr(fs, "write_" + str(rows.form))(rows, "out")


def by_a_name_of_an_imported_module(rows: Any) -> None:
    import firesteel

    getattr(firesteel, f"write_{rows.form}")(rows, "out")


def by_a_table(rows: Any) -> None:
    by_form[rows.form](rows, "out")


def by_a_list(rows: Any) -> None:
    for write in in_turn:
        write(rows)


def by_a_partial(rows: Any) -> None:
    with_arguments(rows)


def bare(rows: Any) -> None:
    rows.write.parquet("out")


def told(function: Any, **options: Any) -> tuple[str, ...]:
    pipeline = fs.Pipeline("p")
    pipeline.sink(**options)(function)
    return warnings(pipeline.definitions)


@pytest.mark.parametrize(
    "function",
    [
        direct,
        by_another_name,
        through_functions,
        through_a_class,
        under_a_decorator,
        by_a_name_made_as_it_runs,
        by_a_name_of_an_imported_module,
        by_a_table,
        by_a_list,
        by_a_partial,
    ],
    ids=lambda f: f.__name__,
)
def test_a_sink_that_writes_through_firesteel_is_not_told(function: Any) -> None:
    assert told(function) == ()


def test_a_sink_that_writes_by_itself_is_told_unless_it_says_that_it_may() -> None:
    (sentence,) = told(bare)
    assert sentence.startswith("sink 'bare' writes by none of fs.write_*")
    assert "idempotent=True" in sentence
    assert told(bare, idempotent=True) == ()


def to_kafka(rows: Any) -> None:
    fs.write_kafka(rows, "orders", "broker:9092")
    fs.write_parquet(rows, "out")


def test_a_sink_that_writes_to_kafka_is_told_that_it_does_so_at_least_once() -> None:
    (sentence,) = told(to_kafka)
    assert sentence.startswith("sink 'to_kafka' writes to Kafka, at least once: ")
    assert "idempotent=True" in sentence
    assert told(to_kafka, idempotent=True) == ()


def test_all_that_firesteel_writes_with_is_known_to_be_transactional_or_not() -> None:
    from firesteel.pipeline.transactions import AT_LEAST_ONCE, TRANSACTIONAL

    assert {*TRANSACTIONAL, *AT_LEAST_ONCE} == {name for name in fs.__all__ if name.startswith("write_")}
