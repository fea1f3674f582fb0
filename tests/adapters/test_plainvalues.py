"""Plain values of what Python has no value for: beside numpy's calendar, and nested."""

import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.adapters.spark.exchange.plainvalues import plain_values

LAST_US = 253_402_318_799_999_999
"""The last microsecond of the year 9999 in New York."""
NEW_YORK = "America/New_York"


@given(st.integers(-106_751_991, 106_751_991))
def test_a_day_is_the_one_of_numpys_calendar(day: int) -> None:
    (found,) = plain_values(pa.array([day], pa.date32()))
    assert np.datetime64(str(found).removeprefix("+")) == np.datetime64(day, "D")
    assert isinstance(found, datetime.date) == (
        np.datetime64("0001-01-01") <= np.datetime64(day, "D") <= np.datetime64("9999-12-31")
    )


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_a_time_is_the_one_of_numpys_calendar(us: int) -> None:
    (found,) = plain_values(pa.array([us], pa.timestamp("us")))
    text = found if isinstance(found, str) else found.isoformat()
    assert np.datetime64(text.removeprefix("+"), "us") == np.datetime64(us, "us")


def test_what_only_its_time_zone_puts_within_reach_is_a_text_too() -> None:
    in_reach = datetime.datetime(1969, 12, 31, 19, tzinfo=ZoneInfo(NEW_YORK))
    found = plain_values(pa.array([LAST_US, 0, None], pa.timestamp("us", tz=NEW_YORK)))
    assert found == ["9999-12-31T23:59:59.999999-05:00", in_reach, None]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.list_(pa.timestamp("us", tz="UTC")), [LAST_US, None], ["+10000-01-01T04:59:59.999999+00:00", None]),
        (pa.struct({"a": pa.date32(), "b": pa.string()}), {"a": -719_163, "b": "x"}, {"a": "0000-12-31", "b": "x"}),
        (pa.timestamp("us", tz="+05:30"), LAST_US, "+10000-01-01T10:29:59.999999+05:30"),
        (pa.map_(pa.int64(), pa.date32()), [(1, 2_932_897)], [(1, "+10000-01-01")]),
    ],
)
def test_nested_values_have_the_form_of_others(kind: pa.DataType, value: object, expected: object) -> None:
    assert plain_values(pa.array([value, None], kind)) == [expected, None]


def test_text_that_is_no_utf_8_is_read_as_far_as_it_can_be() -> None:
    damaged = pa.array([b"\xffx", None], pa.binary()).view(pa.string())
    assert plain_values(damaged) == ["\ufffdx", None]
    assert plain_values(pa.StructArray.from_arrays([damaged], ["q"])) == [{"q": "\ufffdx"}, {"q": None}]
