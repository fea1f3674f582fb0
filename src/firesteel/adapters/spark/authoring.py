"""A stand-in for a Spark session in a process that only reads a pipeline's structure.

`@udf("string")` at module level asks the active session to parse the type and for a setting. Such a module must be
readable without a Spark anywhere; what it gets here is never used to run anything.
"""

from typing import Any


class AuthoringSession:
    """Answers what pyspark asks when functions are declared."""

    is_stopped = False
    session_id = ""

    def __init__(self) -> None:
        self.conf = self

    def get(self, key: str, default: Any = None) -> Any:
        """A setting: pyspark's own default for the ones that decorators read."""
        return "false" if default is None else default

    def _parse_ddl(self, ddl: str) -> Any:
        from pyspark.sql.types import StringType, StructField, StructType

        return StructType([StructField("value", StringType())]) if " " in ddl.strip() else StringType()


def install() -> None:
    """Make it the active session of this thread."""
    from pyspark.sql.connect.session import SparkSession

    SparkSession._active_session.session = AuthoringSession()
