"""Errors that no retry mends, and their neighbours that one may."""

import pytest

from firesteel.adapters.spark.task.recoverability import is_settled, no_retry_mends


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (SyntaxError("invalid syntax"), True),
        (IndentationError("unexpected indent"), True),
        (ModuleNotFoundError("No module named 'helpers'"), True),
        (ImportError("cannot import name 'f' from 'helpers'"), True),
        (ImportError("libx.so: failed to map segment from shared object"), False),
        (KeyError("k"), False),
        (FileNotFoundError("data.csv"), False),
        (MemoryError(), False),
    ],
)
def test_errors_of_user_code(error: BaseException, expected: bool) -> None:
    assert no_retry_mends(error) is expected


@pytest.mark.parametrize(
    ("exception", "condition", "expected"),
    [
        ("ParseException", "PARSE_SYNTAX_ERROR", True),
        ("AnalysisException", "WRONG_NUM_ARGS.WITHOUT_SUGGESTION", True),
        ("AnalysisException", "MISSING_AGGREGATION", True),
        ("AnalysisException", "UNRESOLVED_COLUMN.WITH_SUGGESTION", False),
        ("AnalysisException", "PATH_NOT_FOUND", False),
        ("AnalysisException", "TABLE_OR_VIEW_NOT_FOUND", False),
        ("ArithmeticException", "DIVIDE_BY_ZERO", False),
        ("SparkConnectGrpcException", "", False),
    ],
)
def test_errors_of_spark(exception: str, condition: str, expected: bool) -> None:
    assert is_settled(exception, condition) is expected
