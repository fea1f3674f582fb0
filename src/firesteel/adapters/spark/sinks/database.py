"""Plain JDBC from Python: a connection in a small JVM beside this process, for what Spark has no words for.

Spark writes rows; that a commit is one transaction, only the database's own connection can say.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from firesteel.adapters.spark import gateway


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
    with gateway.opened(class_path) as jvm:
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
