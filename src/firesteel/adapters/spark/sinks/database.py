"""Plain JDBC from Python: a connection in a small JVM beside this process, for what Spark has no words for.

Spark writes rows; that a commit is one transaction, only the database's own connection can say. The gateway is py4j's,
which comes with PySpark; its JVM starts in 0.2 s and ends with this process, however that ends.
"""

import contextlib
import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from firesteel.adapters.spark.jvm import launch

_JVM_FLAGS = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


class DatabaseError(Exception):
    """The database, or its driver, refused. `state` is the SQLSTATE."""

    def __init__(self, state: str, message: str) -> None:
        super().__init__(message)
        self.state = state

    @property
    def is_unreachable(self) -> bool:
        """Nothing answers, or the server is starting or stopping: it may in a moment."""
        return self.state[:2] == "08" or self.state[:3] == "57P"


class Database:
    """One connection, without autocommit."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, sql: str, arguments: Sequence[str] = ()) -> int:
        """Run one statement; the number of rows it changed. Raises DatabaseError."""
        with _errors(), self._statement(sql, arguments) as statement:
            return int(statement.executeUpdate())

    def rows(self, sql: str, arguments: Sequence[str] = ()) -> list[tuple[Any, ...]]:
        """Rows that a query gives. Raises DatabaseError."""
        with _errors(), self._statement(sql, arguments) as statement:
            found = statement.executeQuery()
            columns = range(1, found.getMetaData().getColumnCount() + 1)
            rows = []
            while found.next():
                rows.append(tuple(found.getObject(column) for column in columns))
            return rows

    def commit(self) -> None:
        with _errors():
            self._connection.commit()

    def rollback(self) -> None:
        with _errors():
            self._connection.rollback()

    @contextlib.contextmanager
    def _statement(self, sql: str, arguments: Sequence[str]) -> Iterator[Any]:
        statement = self._connection.prepareStatement(sql)
        try:
            for position, value in enumerate(arguments, start=1):
                statement.setString(position, value)
            yield statement
        finally:
            statement.close()


@contextlib.contextmanager
def connected(url: str, properties: Mapping[str, str], class_path: str) -> Iterator[Database]:
    """A connection; what was not committed is rolled back at the end. Raises DatabaseError."""
    with _jvm(class_path) as jvm:
        settings = jvm.java.util.Properties()
        for name, value in properties.items():
            settings.setProperty(name, value)
        with _errors():
            if "driver" in properties:
                jvm.java.lang.Class.forName(properties["driver"])
            connection = jvm.java.sql.DriverManager.getConnection(url, settings)
        try:
            with _errors():
                connection.setAutoCommit(False)
            yield Database(connection)
        finally:
            connection.close()


@contextlib.contextmanager
def _jvm(class_path: str) -> Iterator[Any]:
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    installation = launch.find_installation()
    (jar,) = glob.glob(f"{installation.home}/jars/py4j-*.jar")
    paths = os.pathsep.join(filter(None, (class_path, launch.base_class_path(installation))))
    port, token, process = launch_gateway(
        jarpath=jar,
        classpath=paths,
        javaopts=_JVM_FLAGS,
        die_on_exit=True,
        java_path=installation.java,
        enable_auth=True,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()
        with process:  # closes its pipes and awaits its end
            process.kill()  # else it waits for the end of this process


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        thrown = error.java_exception
        name, message = thrown.getClass().getName(), str(thrown.getMessage())
        if name == "java.lang.ClassNotFoundException" or "No suitable driver" in message:
            message = f"the JDBC driver was not found ({message}): name its jar with spark.driver.extraClassPath"
            raise DatabaseError("", message) from None
        state = str(thrown.getSQLState() or "") if hasattr(thrown, "getSQLState") else ""
        raise DatabaseError(state, message) from None
