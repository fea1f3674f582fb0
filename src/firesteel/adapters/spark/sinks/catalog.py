"""Names of tables, and those of Spark's session catalog as those see them who write into their files."""

import re
from typing import Any

import msgspec

from firesteel.adapters.spark.refusals import SinkRefused

SESSION_CATALOG = "spark_catalog"
KIND, IN_MEMORY = "spark.sql.catalogImplementation", "in-memory"
"""Setting that says where the session catalog is, and its value for the one in the JVM's memory."""
MADE_BY = "firesteel.commit"
"""Property of a table: the commit that has made it."""
FORMATS = ("parquet", "csv", "json", "orc")
"""Formats whose tables are nothing but the files in their directories."""
_IDENTIFIER = r"(?:`(?:[^`]|``)+`|\w+)"
_NAME = re.compile(rf"{_IDENTIFIER}(?:\.{_IDENTIFIER})*")
PATHS_OF = "delta"
"""The format whose tables are also named by their path: delta.`/path`."""


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


class TableName(msgspec.Struct, frozen=True):
    """A table's whole name, each part unquoted. `str()` gives it as SQL takes it, the same in every session."""

    catalog: str
    """Empty for a table that is named by its path."""
    namespace: tuple[str, ...]
    table: str

    def __str__(self) -> str:
        if not self.catalog:
            return f"{self.namespace[0]}.{quoted(self.table)}"
        catalog = SESSION_CATALOG if self.catalog == SESSION_CATALOG else quoted(self.catalog)
        return ".".join([catalog, self.within])

    @property
    def within(self) -> str:
        """The name within its catalog."""
        return ".".join(map(quoted, (*self.namespace, self.table)))


def quoted(name: str) -> str:
    """One part of a name as SQL takes it."""
    return "`" + name.replace("`", "``") + "`"


def partition_column(name: str) -> Any:
    """The column as `DataFrameWriterV2.partitionedBy` takes it. Spark parses the name once more, and has quoted it itself only if
    there is a dot in it."""
    from pyspark.sql import functions as F

    return F.col(quoted(name if "." in name else quoted(name)))


def first_line(error: Exception) -> str:
    """What Spark says, without the plan or the text that follows."""
    return str(error).strip().partition("\n")[0]


def whole_name(spark: Any, name: str) -> TableName:
    """What a name as the user wrote it means in this session, as Spark reads it. Raises SinkRefused."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SinkRefused(
            f"write_table: {name!r} is no name of a table: write table or database.table, or quote it with `"
        )
    parts = [each[1:-1].replace("``", "`") if each[0] == "`" else each for each in re.findall(_IDENTIFIER, name)]
    if len(parts) == 2 and parts[0].lower() == PATHS_OF and parts[1].startswith(("/", "file:/")):
        return TableName("", (PATHS_OF,), parts[1])
    catalog = str(spark.catalog.currentCatalog())
    if len(parts) > 1 and (parts[0] == SESSION_CATALOG or spark.conf.get(f"spark.sql.catalog.{parts[0]}", "")):
        catalog = parts.pop(0)
    if len(parts) > 2 and catalog == SESSION_CATALOG:
        raise SinkRefused(
            f"write_table: catalog {parts[0]} is not known to Spark: name its class by spark.sql.catalog.{parts[0]}, and"
            " its jar by spark.jars.packages"
        )
    database = () if len(parts) > 1 else (str(spark.catalog.currentDatabase()),)
    return TableName(catalog, (*database, *parts[:-1]), parts[-1])


def fitted(df: Any, name: str) -> Any:
    """The rows with the table's columns, in its order and of its types. Raises SinkRefused."""
    schema = df.sparkSession.table(name).schema
    mine, its = [column.lower() for column in df.columns], [column.lower() for column in schema.names]
    if sorted(mine) != sorted(its):
        extra, missing = set(mine) - set(its), set(its) - set(mine)
        problem = "has two columns of one name" if not extra | missing else ""
        problem = problem or f"has {_shown(extra)} that the table has not" * bool(extra)
        problem = problem or f"lacks {_shown(missing)}"
        raise SinkRefused(f"write_table: what is to be written to {name} {problem}; select the table's columns")
    return df.to(schema)


def _shown(names: set[str]) -> str:
    return f"column{'s' * (len(names) > 1)} {', '.join(sorted(names))}"


def look_up(spark: Any, name: str) -> CatalogTable | None:
    """The table of that full name, or None."""
    if not spark.catalog.tableExists(name):
        return None
    (row,) = spark.sql(f"DESCRIBE TABLE EXTENDED {name} AS JSON").collect()
    return msgspec.json.decode(row[0], type=CatalogTable)


def future_location(spark: Any, name: TableName) -> str:
    """Location of a table that the session catalog will make. Raises what Spark raises for no such database."""
    uri = str(spark.catalog.getDatabase(f"{SESSION_CATALOG}.{quoted(name.namespace[-1])}").locationUri)
    return f"{uri.rstrip('/')}/{name.table.lower()}"
