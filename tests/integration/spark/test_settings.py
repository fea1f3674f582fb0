"""Settings, and questions after a row's file, across functions: the same however the pipeline is cut, or refused by name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firesteel.adapters.spark.exchange.results import ResultRows
from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.adapters.spark.session.settings import changes_rows
from firesteel.adapters.spark.staged.rows import staged_rows
from firesteel.pipeline.authoring import Pipeline
from tests.integration.spark.inprocess import InProcess

pytestmark = pytest.mark.spark
ZONE = "spark.sql.session.timeZone"
CUTS = pytest.mark.parametrize("share", [None, "store"])


def rows_of(local: InProcess, pipeline: Pipeline) -> list[tuple[Any, ...]]:
    (commit,) = local.run(pipeline)
    (file,) = local.directory.rglob(staged_rows(Path(), commit.target).name)
    return [tuple(row) for row in ResultRows(file.read_bytes()).rows()]


def hours(share: Any, *, inside: Callable[[Any], None] | None = None) -> Pipeline:
    """A source with a time zone of its own, one without, and the hours of both."""
    from pyspark.sql import functions as F

    pipeline = Pipeline("hours")

    @pipeline.source(share=share)
    def there(spark: Any) -> Any:
        spark.conf.set(ZONE, "Asia/Kolkata")
        spark.conf.set("my.flag", "up")
        return spark.range(1).select(F.timestamp_seconds("id").alias("at"))

    @pipeline.transform(share=share)
    def hour(there: Any) -> Any:
        if inside is not None:
            inside(there.sparkSession)
        return there.select(F.hour("at"), F.lit(there.sparkSession.conf.get("my.flag")))

    @pipeline.result
    def found(hour: Any) -> Any:
        return hour.withColumn("zone", F.current_timezone())

    return pipeline


@CUTS
def test_a_sources_settings_go_where_its_rows_go(local: InProcess, share: Any) -> None:
    assert rows_of(local, hours(share)) == [(5, "up", "Asia/Kolkata")]
    assert local.spark.conf.get(ZONE) == "Asia/Kolkata"
    local.session.switch_settings({})
    assert local.spark.conf.get(ZONE) == "UTC"


@CUTS
def test_what_does_not_change_rows_may_be_set_anywhere(local: InProcess, share: Any) -> None:
    def inside(spark: Any) -> None:
        spark.conf.set("spark.sql.shuffle.partitions", 7)
        spark.sql("SET my.flag = down")

    assert rows_of(local, hours(share, inside=inside)) == [(5, "down", "Asia/Kolkata")]
    local.session.switch_settings({})
    assert local.spark.conf.get("spark.sql.shuffle.partitions") == "3"


def test_reset_goes_back_to_the_settings_of_the_job(local: InProcess) -> None:
    pipeline = Pipeline("reset")

    @pipeline.source
    def settings(spark: Any) -> Any:
        seen = []
        for statement in (f"RESET {ZONE}", "/* all */ reset;"):
            spark.conf.set(ZONE, "Asia/Kolkata")
            spark.sql("SET spark.sql.shuffle.partitions = 7")
            spark.sql(statement)
            seen.append((spark.conf.get(ZONE), spark.conf.get("spark.sql.shuffle.partitions")))
        return spark.createDataFrame(seen, "zone string, partitions string")

    @pipeline.result
    def same(settings: Any) -> Any:
        return settings

    assert rows_of(local, pipeline) == [("UTC", "7"), ("UTC", "3")]
    local.session.switch_settings({})


@CUTS
@pytest.mark.parametrize(
    "inside",
    [
        lambda spark: spark.conf.set(ZONE, "UTC"),
        lambda spark: spark.conf.unset(ZONE),
        lambda spark: spark.sql(f"SET {ZONE}=UTC"),
        lambda spark: spark.sql("set time zone 'UTC'"),
        lambda spark: spark.sql("RESET"),
        lambda spark: spark.sql(f"reset {ZONE}"),
    ],
)
def test_what_may_change_the_rows_of_inputs_is_refused(
    local: InProcess, share: Any, inside: Callable[[Any], None]
) -> None:
    with pytest.raises(PipelineRefused, match=f"hour sets {ZONE}, .* input there .* -D {ZONE}=VALUE"):
        rows_of(local, hours(share, inside=inside))
    local.session.switch_settings({})


@CUTS
def test_inputs_with_different_settings_are_not_brought_together(local: InProcess, share: Any) -> None:
    pipeline = Pipeline("two")

    @pipeline.source(share=share)
    def here(spark: Any) -> Any:
        assert spark.conf.get(ZONE) == "UTC"
        return spark.range(1)

    @pipeline.source(share=share)
    def there(spark: Any) -> Any:
        spark.conf.set(ZONE, "Asia/Kolkata")
        return spark.range(1)

    @pipeline.result
    def both(here: Any, there: Any) -> Any:
        return here.union(there)

    with pytest.raises(PipelineRefused, match=r"both brings together .*: here with the job's, there with Asia/Kolkata"):
        rows_of(local, pipeline)
    local.session.switch_settings({})


def files(share: Any, path: Path, ask: Callable[[Any], Any]) -> Pipeline:
    pipeline = Pipeline("files")

    @pipeline.source(share=share)
    def lines(spark: Any) -> Any:
        return spark.read.text(str(path))

    @pipeline.result
    def asked(lines: Any) -> Any:
        return ask(lines)

    return pipeline


def by_sql(frame: Any) -> Any:
    frame.createOrReplaceTempView("lines")
    return frame.sparkSession.sql("SELECT value, input_file_name() AS file FROM lines")


@pytest.mark.parametrize(
    ("ask", "name"),
    [
        (lambda f: f.selectExpr("value", "input_file_name() AS file"), "input_file_name"),
        (lambda f: f.withColumn("file", _functions().input_file_name()), "input_file_name"),
        (lambda f: f.select("value", _functions().col("_metadata.file_path").alias("file")), "_metadata"),
        (lambda f: f.select("value", f._metadata["file_path"].alias("file")), "_metadata"),
        (by_sql, "input_file_name"),
    ],
)
def test_a_rows_file_is_told_or_refused(local: InProcess, tmp_path: Path, ask: Callable[[Any], Any], name: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text("x\n")
    ((value, file),) = rows_of(local, files(None, path, ask))
    assert (value, file.endswith("/a.txt")) == ("x", True)
    with pytest.raises(PipelineRefused, match=f"asked asks for {name} of rows that reach it through a stored result"):
        rows_of(local, files("store", path, ask))


def test_a_column_of_that_name_may_be_read(local: InProcess, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    pipeline = Pipeline("own")

    @pipeline.source(share="store")
    def lines(spark: Any) -> Any:
        return spark.read.text(str(tmp_path / "a.txt")).withColumnRenamed("value", "_metadata")

    @pipeline.result
    def asked(lines: Any) -> Any:
        return lines.where("_metadata = 'x'").select("_metadata")

    assert rows_of(local, pipeline) == [("x",)]


def test_names_that_change_rows() -> None:
    assert changes_rows(ZONE)
    assert changes_rows("spark.sql.ansi.enabled")
    assert not changes_rows("spark.sql.shuffle.partitions")
    assert not changes_rows("my.flag")


def _functions() -> Any:
    from pyspark.sql import functions as F

    return F
