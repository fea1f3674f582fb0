"""Delta and Iceberg: the newest releases, the Spark they are for, and an engine that is not Spark."""

import re
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DELTA = "io.delta:delta-spark_4.2_2.13:4.4.0"
ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
Rows = Counter[tuple[Any, ...]]


@dataclass(frozen=True)
class Format:
    """A table format, and how its tables are looked at."""

    name: str
    spark: str
    """Name of the pins of its Spark."""
    package: str
    catalog: str
    own_settings: Callable[[Path], dict[str, str]]
    versions: Callable[[Any, str], int]
    """Versions that readers have seen, by session and full name."""
    read_back: Callable[[Any, str], Rows]

    def settings(self, warehouse: Path) -> dict[str, str]:
        return {"spark.jars.packages": self.package, **self.own_settings(warehouse)}

    def table(self, name: str) -> str:
        return f"{self.catalog}.{name}"


def _delta_settings(warehouse: Path) -> dict[str, str]:
    return {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": str(warehouse),
        "spark.databricks.delta.snapshotPartitions": "1",
    }


def _delta_versions(spark: Any, name: str) -> int:
    return int(spark.sql(f"DESCRIBE HISTORY {name}").count())


def _delta_rows(spark: Any, name: str) -> Rows:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import deltalake

        return _counted(deltalake.DeltaTable(_location(spark, name)).to_pyarrow_table())


def _iceberg_settings(warehouse: Path) -> dict[str, str]:
    return {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(warehouse),
    }


def _iceberg_versions(spark: Any, name: str) -> int:
    return int(spark.sql(f"SELECT * FROM {name}.history WHERE is_current_ancestor").count())


def _iceberg_rows(spark: Any, name: str) -> Rows:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyiceberg.table import StaticTable

        metadata = Path(_location(spark, name), "metadata")
        newest = (metadata / "version-hint.text").read_text().strip()
        return _counted(StaticTable.from_metadata(str(metadata / f"v{newest}.metadata.json")).scan().to_arrow())


def _location(spark: Any, name: str) -> str:
    (row,) = spark.sql(f"DESCRIBE TABLE EXTENDED {name}").where("col_name = 'Location'").collect()
    return re.sub("^file:", "", str(row.data_type))


def _counted(table: Any) -> Rows:
    return Counter(tuple(row.values()) for row in table.to_pylist())


FORMATS = (
    Format("delta", "spark42", DELTA, "default", _delta_settings, _delta_versions, _delta_rows),
    Format("iceberg", "spark41", ICEBERG, "ice.db", _iceberg_settings, _iceberg_versions, _iceberg_rows),
)
