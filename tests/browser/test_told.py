"""What the page makes of answers that the cluster without Spark does not give: rows, checkpoints, several masters."""

import base64
import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from firesteel.model.jobgraph import JobType
from tests.browser.conftest import Do
from tests.browser.pages import browser, flaws, go, overflow, page, picture
from tests.browser.site import Site, named, site, submitted

UTC = datetime.UTC
DAY = datetime.date(1969, 12, 30)
MOMENT = datetime.datetime(1969, 12, 30, 23, 59, 59, 250_000)  # noqa: DTZ001 - as Spark has them
ROWS: dict[str, tuple[Any, list[Any], list[str | None]]] = {
    "byte": ("int8", [-1, None], ["-1", None]),
    "long": ("int64", [2**62 + 1, -5], ["4611686018427387905", "-5"]),
    "float": ("float32", [0.1, None], ["0.1", None]),
    "double": ("float64", [1e300, -0.5], ["1e+300", "-0.5"]),
    "word": ("string", ["zwölf Äpfel", ""], ["zwölf Äpfel", ""]),
    "large": ("large_string", [None, "x"], [None, "x"]),
    "yes": ("bool", [True, False], ["true", "false"]),
    "bytes": ("binary", [b"\x00\xff", None], ["00ff", None]),
    "nothing": ("null", [None, None], [None, None]),
    "price": ("decimal(10,2)", [Decimal("-0.05"), Decimal("12.30")], ["-0.05", "12.30"]),
    "whole": ("decimal(38,0)", [Decimal(10**37), None], [str(10**37), None]),
    "day": ("date32", [DAY, datetime.date(2026, 11, 23)], ["1969-12-30", "2026-11-23"]),
    "moment": ("timestamp", [MOMENT, None], ["1969-12-30 23:59:59.25 UTC", None]),
    "local": (
        "timestamp_ntz",
        [MOMENT, MOMENT.replace(microsecond=0)],
        ["1969-12-30 23:59:59.25", "1969-12-30 23:59:59"],
    ),
    "lasted": ("duration", [datetime.timedelta(seconds=1.5), None], ["1.5 s", None]),
    "list": ("list", [[1, None], []], ["[1, null]", "[]"]),
    "struct": ("struct", [{"a": 1, "b": "x"}, None], ["{a: 1, b: x}", None]),
    "map": ("map", [[("k", 1)], []], ["{k: 1}", "{}"]),
}


def stream(rows: int = 2) -> bytes:
    """The columns above as PySpark would have them, in batches of one row."""
    import pyarrow as pa

    types: dict[str, Any] = {
        "null": pa.null(),
        "bool": pa.bool_(),
        "decimal(10,2)": pa.decimal128(10, 2),
        "decimal(38,0)": pa.decimal128(38, 0),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
        "duration": pa.duration("us"),
        "list": pa.list_(pa.int32()),
        "struct": pa.struct([("a", pa.int32()), ("b", pa.string())]),
        "map": pa.map_(pa.string(), pa.int32()),
    }
    columns = {
        name: pa.array((values * rows)[:rows], types[kind] if kind in types else getattr(pa, kind)())
        for name, (kind, values, _) in ROWS.items()
    }
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=1 if rows == 2 else 60):
            writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


async def with_rows(made: Site, opened: Any, rows: int) -> None:
    content = stream(rows)
    job = made.jobs["daily sales report"]
    result = await made.rest.get(f"/jobs/{job}/execution-result")
    returned = {"function": "top", "sha256": "0" * 64, "rows": rows, "size_bytes": len(content)}
    result["result"] |= {"returned": [returned]}
    await opened.route("**/execution-result*", lambda route: route.fulfill(json=result))
    body = {"arrow": base64.b64encode(content).decode()}
    await opened.route("**/rows?function=top", lambda route: route.fulfill(json=body))
    await go(opened, f"#/jobs/{job}/results", "text=Returned rows")
    await opened.get_by_role("button", name="Show rows of top").click()
    await opened.locator(".preview-rows").wait_for()


def test_returned_rows_are_shown(do: Do, tmp_path: Path) -> None:
    async def story() -> None:
        async with site(tmp_path) as made, browser() as started:
            async with page(started, made.address) as opened:
                await with_rows(made, opened, 2)
                shown = json.loads(
                    await opened.locator(".preview-rows").evaluate(
                        "table => JSON.stringify([...table.rows].map(row => [...row.cells].map(cell => cell.textContent)))"
                    )
                )
                assert shown[0] == list(ROWS)
                for place in (0, 1):
                    assert dict(zip(ROWS, shown[place + 1], strict=True)) == {
                        name: "null" if texts[place] is None else texts[place] for name, (_, _, texts) in ROWS.items()
                    }
            async with page(started, made.address, width=390, theme="dark") as opened:
                await with_rows(made, opened, 250)
                assert await opened.locator(".preview-rows tbody tr").count() == 100
                await opened.locator("text=the first 100 rows of 250").wait_for()
                await picture(opened, "rows-390-dark")
                assert (await flaws(opened), await overflow(opened)) == ([], 0)

    do(story())


CHECKPOINT = {
    "className": "completed",
    "id": 41,
    "status": "COMPLETED",
    "is_savepoint": False,
    "trigger_timestamp": 1_795_000_000_000,
    "latest_ack_timestamp": 1_795_000_000_420,
    "state_size": 12_400_000,
    "end_to_end_duration": 420,
    "external_path": "s3://bucket/checkpoints/clicks/41",
    "discarded": False,
}
SAVEPOINT = {**CHECKPOINT, "id": 40, "is_savepoint": True, "external_path": "s3://bucket/savepoints/clicks-40"}
FAILED = {
    "className": "failed",
    "id": 39,
    "status": "FAILED",
    "is_savepoint": False,
    "trigger_timestamp": 1_794_999_000_000,
    "failure_timestamp": 1_794_999_600_000,
    "failure_message": "the checkpoint was not complete after 10 min",
    "state_size": -1,
    "end_to_end_duration": -1,
}
STATISTICS: dict[str, Any] = {
    "counts": {"restored": 1, "total": 41, "in_progress": 0, "completed": 40, "failed": 1},
    "summary": {"end_to_end_duration": {"min": 200, "max": 900, "avg": 431}},
    "latest": {
        "completed": CHECKPOINT,
        "savepoint": SAVEPOINT,
        "failed": FAILED,
        "restored": {"id": 12, "restore_timestamp": 1_794_000_000_000, "is_savepoint": True, "external_path": "/s/12"},
    },
    "history": [CHECKPOINT, SAVEPOINT, FAILED],
}

SETTINGS = {"mode": "exactly_once", "interval": 60_000}


def test_checkpoints_of_a_stream(do: Do, tmp_path: Path) -> None:
    async def story() -> None:
        async with site(tmp_path) as made, browser() as started:
            job = await submitted(made, named("clicks -> rows", "clicks as they come", job_type=JobType.STREAMING))
            for width, theme in ((1280, "light"), (390, "dark")):
                async with page(started, made.address, width=width, theme=theme) as opened:
                    await opened.route("**/checkpoints", lambda route: route.fulfill(json=STATISTICS))
                    await opened.route("**/checkpoints/config", lambda route: route.fulfill(json=SETTINGS))
                    await go(opened, f"#/jobs/{job}/checkpoints", "text=every 1 min 00 s")
                    for text in ("41", "12.4 MB", "420 ms", "s3://bucket/savepoints/clicks-40", "was not complete"):
                        assert await opened.locator(f"text={text}").count() >= 1, text
                    await picture(opened, f"checkpoints-{width}-{theme}")
                    assert (await flaws(opened), await overflow(opened)) == ([], 0)
            async with page(started, made.address, expected=("404",)) as opened:
                missing = {"errors": ["Checkpointing was not enabled."]}
                await opened.route("**/checkpoints", lambda route: route.fulfill(status=404, json=missing))
                await opened.route("**/checkpoints/config", lambda route: route.fulfill(status=404, json=missing))
                await go(opened, f"#/jobs/{job}/checkpoints", "text=Nothing is told of this job's checkpoints")

    do(story())


async def told(opened: Any, answer: Any) -> None:
    await opened.route("**/cluster/masters", lambda route: route.fulfill(json=answer))


def test_the_leader_and_who_would_take_over(do: Do, tmp_path: Path) -> None:
    leader = {"leads": True, "name": "a", "node": "jobmanager 7 on one", "rest-address": "http://one:8081", "epoch": 3}

    async def story() -> None:
        async with site(tmp_path) as made, browser() as started:
            for standbys in ([], [{"name": "jobmanager 8 on two"}]):
                async with page(started, made.address) as opened:
                    await told(opened, {"leader": leader, "standbys": standbys})
                    await go(opened, "#/master", "text=jobmanager 7 on one")
                    alone = await opened.locator("text=nobody would take over").count()
                    assert (alone, await opened.locator("text=jobmanager 8 on two").count()) == (
                        (0, 1) if standbys else (1, 0)
                    )
                    assert await flaws(opened) == []

    do(story())
