"""Logs of JVMs that have ended: a worker that runs for long keeps the newest ones."""

import asyncio
import contextlib
import os
from pathlib import Path

import pytest

from firesteel.adapters.spark.jvm import generations
from firesteel.adapters.spark.jvm.generations import Generations
from firesteel.adapters.spark.jvm.process import JvmDied


def test_the_logs_of_the_newest_jvms_are_kept_and_of_those_that_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generations, "LOGS_KEPT", 2)

    def written(file: Path, moment: int) -> None:
        file.touch()
        os.utime(file, (moment, moment))

    for name in ("forkserver.log", "spark-9.log", "spark-9.1.log", "spark-x.log"):
        written(tmp_path / name, 100)  # by a former process

    async def story() -> None:
        known = Generations(tmp_path)
        async with contextlib.AsyncExitStack() as stack:
            first = await stack.enter_async_context(known.another())
            written(known.log(first), 101)
            for moment in (102, 103, 104):
                async with known.another() as number:
                    written(known.log(number), moment)
                    written(tmp_path / f"spark-{number}.1.log", moment - 10)
            async with known.another() as last:
                assert (first, last) == (1, 5)

    asyncio.run(story())
    others = {"forkserver.log", "spark-x.log"}
    kept = {"spark-1.log", "spark-3.log", "spark-3.1.log", "spark-4.log", "spark-4.1.log"}
    assert {file.name for file in tmp_path.iterdir()} == others | kept


def test_a_jvm_that_does_not_start_with_its_settings_says_with_which(tmp_path: Path) -> None:
    log = tmp_path / "spark-1.log"
    log.write_text(
        "Caused by: org.apache.spark.SparkIllegalArgumentException: [INVALID_CONF_VALUE.TYPE_MISMATCH] The value 'many' in the"
        " config \"spark.sql.shuffle.partitions\" is invalid. It should be a/an 'int' value. SQLSTATE: 22022\n\tat x.Y(Z)\n"
    )
    assert str(JvmDied(1, log)) == (
        "Spark does not start with its settings: The value 'many' in the config"
        ' "spark.sql.shuffle.partitions" is invalid.'
        " It should be a/an 'int' value."
    )
