"""Rows that a job returned, as `firesteel run` prints them."""

import asyncio
import datetime
import json
import sys
from decimal import Decimal

import msgspec
import pyarrow as pa
import pytest

from firesteel.adapters.spark.exchange.results import ResultRows
from firesteel.cli.exits import OUTPUT_LOST, CommandError
from firesteel.cli.following.follow import result_json, result_lines
from firesteel.cli.following.rows import ROWS_SHOWN_MAX, fetch_rows, records, show_rows
from firesteel.client.transport import RequestFailed
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.model.views import JobResult, ReturnedRows
from firesteel.runtime.client import StorageFull

TABLE = pa.table(
    {
        "[word]": ["to\tbe", None],
        "n": [Decimal("1.10"), Decimal("2.00")],
        "day": [datetime.date(2024, 2, 29), None],
        "raw": [b"\x00", b""],
    }
)


def stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema.with_metadata({"spark.schema": "{}"})) as writer:
        writer.write_table(table.replace_schema_metadata({"spark.schema": "{}"}))
    content: bytes = sink.getvalue().to_pybytes()
    return content


class Client:
    async def fetch_result(self, job_id: JobID, function: str = "") -> bytes:
        assert function == "top"
        return stream(TABLE)


RESULT = JobResult(
    job_id=JobID("ab" * 16),
    name="words",
    status=JobStatus.FINISHED,
    start_time_ms=0,
    end_time_ms=1_000,
    returned=(ReturnedRows(function="top", sha256="0" * 64, rows=2, size_bytes=99),),
)


def test_what_would_command_a_terminal_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    table = pa.table({"a\nb": ["\x1b[31mred", "red", "\x00\x7f\x9b", "größe ✓"]})
    show_rows({"top": ResultRows(stream(table))})
    assert capsys.readouterr().out == "a\\nb\n\\x1b[31mred\nred\n\\x00\\x7f\\x9b\ngröße ✓\n"


def test_lines_with_tabs_where_no_person_looks(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows({"top": ResultRows(stream(TABLE))})
    assert capsys.readouterr().out == (
        "[word]\tn\tday\traw\nto\\tbe\t1.10\t2024-02-29\tb'\\\\x00'\nNULL\t2.00\tNULL\tb''\n"
    )


def test_every_row_where_no_person_looks(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows({"top": ResultRows(stream(pa.table({"id": list(range(5_000))})))})
    out, err = capsys.readouterr()
    assert (out.splitlines(), err) == (["id", *map(str, range(5_000))], "")


def test_dates_that_python_has_not_are_texts() -> None:
    days = pa.table({"day": pa.array([0, 4_000_000, None], pa.int32()).cast(pa.date32())})
    assert ResultRows(stream(days)).values() == [[datetime.date(1970, 1, 1), "+12921-08-18", None]]


def test_texts_that_are_no_utf_8_are_shown_as_far_as_they_can_be_read() -> None:
    text = pa.table({"text": pa.chunked_array([pa.array([b"a\xff", b"b", None]).view(pa.string())])})
    assert ResultRows(stream(text)).values() == [["a\ufffd", "b", None]]


def test_a_table_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    many = pa.table({"id": list(range(ROWS_SHOWN_MAX + 1_000))})
    more = pa.table({"id": list(range(ROWS_SHOWN_MAX + 1))})
    tables = {"top": TABLE, "[b]many": many, "more": more}
    show_rows({function: ResultRows(stream(table)) for function, table in tables.items()})
    out, err = capsys.readouterr()
    assert "[word]" in out
    assert "to\\tbe" in out
    assert "[b]many" in out
    assert f" {ROWS_SHOWN_MAX - 1} " in out
    assert f" {ROWS_SHOWN_MAX} " not in out
    assert err == "... 1,000 more rows of [b]many (--json prints all)\n... 1 more row of more (--json prints all)\n"


def test_json_has_every_row() -> None:
    shown = json.loads(result_json(RESULT, records(asyncio.run(fetch_rows(Client(), RESULT)))))  # type: ignore[arg-type]
    (returned,) = shown["returned"]
    assert returned["records"] == [
        {"[word]": "to\tbe", "n": "1.10", "day": "2024-02-29", "raw": "AA=="},
        {"[word]": None, "n": "2.00", "day": None, "raw": ""},
    ]


@pytest.mark.parametrize(
    "error", [OSError("no answer"), StorageFull("disk"), RequestFailed("500"), ConnectionError("-")]
)
def test_rows_that_do_not_come_are_no_failure_of_the_job(error: Exception) -> None:
    """Whoever runs a job again that has failed would write its outputs twice."""

    class Broken:
        async def fetch_result(self, job_id: JobID, function: str = "") -> bytes:
            raise error

    with pytest.raises(CommandError, match="is FINISHED, but the rows that top returned did not come") as told:
        asyncio.run(fetch_rows(Broken(), RESULT))  # type: ignore[arg-type]
    assert told.value.code == OUTPUT_LOST


def test_columns_of_one_name_are_all_there() -> None:
    table = pa.Table.from_arrays([pa.array([number]) for number in range(6)], names=["a", "a", "A", "a_1", "a", "{}"])
    assert records({"top": ResultRows(stream(table))}) == {
        "top": [{"a": 0, "a_2": 1, "A": 2, "a_1": 3, "a_3": 4, "{}": 5}],
    }


def test_the_result_names_what_was_returned() -> None:
    assert result_lines(RESULT)[1] == "  top: 2 rows"


def test_numbers_that_json_has_not_are_the_texts_that_spark_writes() -> None:
    nan, above = float("nan"), float("inf")
    table = pa.table({"x": [nan, above, -above, None], "deep": [[nan], [], None, [1.5]]})
    rows = records({"top": ResultRows(stream(table))})["top"]
    assert [row["x"] for row in rows] == ["NaN", "Infinity", "-Infinity", None]
    assert [row["deep"] for row in rows] == [["NaN"], [], None, [1.5]]


def test_moments_with_seconds_in_their_offset_are_told_in_utc() -> None:
    """Local mean time: ISO 8601 has no such offsets, and cutting them off is another moment."""
    moments = [datetime.datetime(year, 6, 1, tzinfo=datetime.UTC) for year in (1890, 2024)]
    table = pa.table({"at": pa.array(moments, pa.timestamp("us", "Europe/Berlin"))})
    (rows,) = records({"top": ResultRows(stream(table))}).values()
    assert [json.loads(msgspec.json.encode(row["at"])) for row in rows] == [
        "1890-06-01T00:00:00Z",
        "2024-06-01T02:00:00+02:00",
    ]
