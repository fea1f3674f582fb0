"""Tables of Spark's session catalog, as those see them who write into their files."""

import re
from typing import Any

import msgspec

from firesteel.adapters.spark.refusals import SinkRefused

SESSION_CATALOG = "spark_catalog"
FORMATS = ("parquet", "csv", "json", "orc")
"""Formats whose tables are nothing but the files in their directories."""
_IDENTIFIER = r"(?:`(?:[^`]|``)+`|\w+)"
_NAME = re.compile(rf"{_IDENTIFIER}(?:\.{_IDENTIFIER}){{0,2}}")


class CatalogTable(msgspec.Struct, frozen=True):
    """A table, as DESCRIBE TABLE EXTENDED ... AS JSON tells of it. Other fields are left out."""

    columns: list[dict[str, Any]]
    type: str = ""
    provider: str = ""
    location: str = ""
    partition_columns: list[str] = []
    bucket_columns: list[str] = []
    table_properties: dict[str, str] = {}
    storage_properties: dict[str, str] = {}

    @property
    def problem(self) -> str:
        """Why rows can't be put into it by putting files into its directory, or empty."""
        if self.type == "VIEW":
            return "is a view"
        if self.provider.lower() not in FORMATS:
            return f"has the format {self.provider or 'unknown'}, not one of {', '.join(FORMATS)}"
        if self.bucket_columns:
            return f"is bucketed by {', '.join(self.bucket_columns)}"
        fixed = [str(column["name"]) for column in self.columns if column["type"].get("name") in ("char", "varchar")]
        return f"has columns of type char or varchar ({', '.join(fixed)})" if fixed else ""


def full_name(spark: Any, name: str) -> str:
    """Catalog, database and table, quoted: the same in every session. Raises SinkRefused."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SinkRefused(
            f"write_table: {name!r} is no name of a table: write table or database.table, or quote it with `"
        )
    parts = re.findall(_IDENTIFIER, name)
    catalog = parts[0] if len(parts) == 3 else spark.catalog.currentCatalog()
    if catalog.strip("`") != SESSION_CATALOG:
        raise SinkRefused(
            f"write_table: catalog {catalog} is not Spark's own ({SESSION_CATALOG}), and its tables are not files that"
            " can be committed with the job; use fs.write_jdbc or fs.write_two_phase, or df.writeTo(...) in a sink that is"
            " declared idempotent=True"
        )
    database = parts[-2] if len(parts) > 1 else spark.catalog.currentDatabase()
    return ".".join(
        [SESSION_CATALOG, *(each if each.startswith("`") else f"`{each}`" for each in (database, parts[-1]))]
    )


def look_up(spark: Any, name: str) -> CatalogTable | None:
    """The table of that full name, or None."""
    if not spark.catalog.tableExists(name):
        return None
    (row,) = spark.sql(f"DESCRIBE TABLE EXTENDED {name} AS JSON").collect()
    return msgspec.json.decode(row[0], type=CatalogTable)


def future_location(spark: Any, name: str) -> str:
    """Location of a table that the catalog will make. Raises what Spark raises for no such database."""
    _, database, table = re.findall(_IDENTIFIER, name)
    uri = str(spark.catalog.getDatabase(f"{SESSION_CATALOG}.{database}").locationUri)
    return f"{uri.rstrip('/')}/{table[1:-1].replace('``', '`').lower()}"
