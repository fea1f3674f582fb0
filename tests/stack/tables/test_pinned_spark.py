"""What a connector that is not made for the pinned Spark is told; the day it runs there, these tests fail, and can go."""

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import firesteel as fs
from firesteel.adapters.blob.local import LocalBlobStore
from firesteel.adapters.spark.refusals import SinkRefused
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.model.options import Configuration
from tests.connectmode import connect_mode
from tests.integration.spark.inprocess import InProcess
from tests.stack.tables.formats import FORMATS, Format


@pytest.fixture(params=FORMATS, ids=lambda each: each.name)
def on_pinned(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Format, InProcess]]:
    table_format: Format = request.param
    own = {"taskmanager.spark.class-data-archive": "false", **table_format.settings(tmp_path / "warehouse")}
    with asyncio.Runner() as runner, connect_mode():
        do: Callable[[Any], Any] = runner.run
        backend = SparkTaskBackend(Configuration(own), tmp_path / "work", LocalBlobStore(tmp_path / "blobs"))
        do(backend.start())
        with contextlib.closing(InProcess(backend, tmp_path / "inprocess", do)) as local:
            yield table_format, local
        do(backend.close())
    shutil.rmtree(tmp_path / "work")


def test_a_connector_for_another_spark_is_said(on_pinned: tuple[Format, InProcess]) -> None:
    table_format, local = on_pinned
    frame, name = local.spark.sql("select 1 as a"), table_format.table("t")
    if table_format.name == "delta":  # which can make a table there
        fs.write_table(frame, name, using="delta")
    with pytest.raises(SinkRefused, match=r"was made for another version of Spark than 4\.3"):
        fs.write_table(frame, name, "overwrite")
