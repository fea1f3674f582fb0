"""Errors that no retry mends: their cause is in the job's code alone, which is the same in every attempt.

Careful rather than complete, since a retry that was for nothing costs seconds and one that was refused costs the job. An
unknown column is not among them: the schema that Spark infers from files may be another one a minute later. Nor is a
table, path or catalog function that is not there, or a library that can't be loaded for want of memory.
"""

_SETTLED = frozenset(
    {
        "INVALID_WHERE_CONDITION",
        "MISSING_AGGREGATION",
        "MISSING_GROUP_BY",
        "NESTED_AGGREGATE_FUNCTION",
        "UNSUPPORTED_EXPR_FOR_WINDOW",
        "UNSUPPORTED_GENERATOR",
        "WINDOW_FUNCTION_WITHOUT_OVER_CLAUSE",
        "WRONG_NUM_ARGS",
    }
)
"""Spark's error conditions that a query has by its form, whatever it reads."""


def no_retry_mends(error: BaseException) -> bool:
    """Whether an error of user code, raised in its task process, comes back with every attempt."""
    match error:
        case SyntaxError() | ModuleNotFoundError():
            return True
        case ImportError():
            return str(error).startswith("cannot import name")
        case _:
            return False


def is_settled(exception: str, condition: str) -> bool:
    """Whether an error of Spark comes back with every attempt, by its class and its condition."""
    return exception == "ParseException" or condition.partition(".")[0] in _SETTLED
