"""SQL statements in what a Connect client has run."""

from typing import Any

SKIPPED = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*"
"""A pattern for what may stand before a statement; with re.DOTALL."""


def text_of(plan: Any) -> str:
    """The text that `spark.sql` was given; empty for other plans."""
    command = plan.command.sql_command
    return str(command.sql or command.input.sql.query)
