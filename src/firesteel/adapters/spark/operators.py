"""What Connect's expressions say about rows: columns they name, and functions that look beyond one row."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

AGGREGATES = frozenset(
    [
        "any",
        "any_value",
        "approx_count_distinct",
        "approx_percentile",
        "approx_top_k",
        "approx_top_k_accumulate",
        "approx_top_k_combine",
        "array_agg",
        "avg",
        "bit_and",
        "bit_or",
        "bit_xor",
        "bitmap_and_agg",
        "bitmap_construct_agg",
        "bitmap_or_agg",
        "bool_and",
        "bool_or",
        "collect_list",
        "collect_set",
        "collect_union",
        "corr",
        "count",
        "count_if",
        "count_min_sketch",
        "covar_pop",
        "covar_samp",
        "cume_dist",
        "dense_rank",
        "every",
        "first",
        "first_value",
        "grouping",
        "grouping_id",
        "histogram_numeric",
        "hll_sketch_agg",
        "hll_union_agg",
        "kll_merge_agg_bigint",
        "kll_merge_agg_double",
        "kll_merge_agg_float",
        "kll_sketch_agg_bigint",
        "kll_sketch_agg_double",
        "kll_sketch_agg_float",
        "kurtosis",
        "last",
        "last_value",
        "listagg",
        "max",
        "max_by",
        "mean",
        "measure",
        "median",
        "min",
        "min_by",
        "mode",
        "nth_value",
        "ntile",
        "percent_rank",
        "percentile",
        "percentile_approx",
        "percentile_cont",
        "percentile_disc",
        "product",
        "rank",
        "regr_avgx",
        "regr_avgy",
        "regr_count",
        "regr_intercept",
        "regr_r2",
        "regr_slope",
        "regr_sxx",
        "regr_sxy",
        "regr_syy",
        "row_number",
        "schema_of_variant_agg",
        "skewness",
        "some",
        "std",
        "stddev",
        "stddev_pop",
        "stddev_samp",
        "string_agg",
        "sum",
        "theta_intersection_agg",
        "theta_sketch_agg",
        "theta_union_agg",
        "try_avg",
        "try_sum",
        "tuple_intersection_agg_double",
        "tuple_intersection_agg_integer",
        "tuple_sketch_agg_double",
        "tuple_sketch_agg_integer",
        "tuple_union_agg_double",
        "tuple_union_agg_integer",
        "var_pop",
        "var_samp",
        "variance",
        "vector_avg",
        "vector_sum",
    ]
)
"""Spark's functions of many rows; a test compares them with Spark's own registry."""

POSITIONAL = frozenset(
    [
        "monotonically_increasing_id",
        "spark_partition_id",
        "distributed_id",
        "distributed_sequence_id",
        "input_file_name",
        "input_file_block_start",
        "input_file_block_length",
        "counter_diff",
        "lag",
        "lead",
    ]
)
"""Functions of where a row lies."""

AGGREGATE_UDFS = frozenset((202, 203, 217, 252, 253, 254))
"""pyspark.util.PythonEvalType of functions that take whole groups."""

_IDENTIFIER = re.compile(r"(?P<first>`(?:[^`]|``)+`|[^.`]+)(?:\.(?P<second>`(?:[^`]|``)+`|[^.`]+))?")
SQL_NAME = r"(?:`(?:[^`]|``)+`|[^\W\d]\w*)(?:\.(?:`(?:[^`]|``)+`|[^\W\d]\w*))?"
"""A column in SQL text: its name, maybe qualified."""
_SQL_TOKEN = re.compile(
    r"""[rR]'[^']*' | [rR]"[^"]*" | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | --[^\n]* | /\*.*?\*/
    | (?P<name>`(?:[^`]|``)+` | [^\W\d]\w*)(?P<call>\s*\()?""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class BeyondRow:
    """Something in an expression that needs more rows than its own."""

    shown: str
    partition: tuple[Any, ...] | None = None
    """Of a window: the expressions it partitions by. None: nothing makes it right on a share."""


def beyond_row(expression: Any) -> Iterator[BeyondRow]:
    """What in `expression` (a Connect proto) looks beyond its row."""
    match expression.WhichOneof("expr_type"):
        case "window":
            window = expression.window
            yield BeyondRow("a window", tuple(window.partition_spec))
            for inner in (window.window_function, *window.partition_spec, *window.order_spec):
                for part in children(inner):
                    yield from beyond_row(part)
            return
        case "unresolved_function" | "call_function" as kind:
            function = getattr(expression, kind)
            if _is_beyond(function.function_name) or getattr(function, "is_internal", False):
                yield BeyondRow(f"{function.function_name}()")
        case "expression_string":
            yield from _in_sql(expression.expression_string.expression)
        case "typed_aggregate_expression":
            yield BeyondRow("an aggregate function")
        case "common_inline_user_defined_function":
            udf = expression.common_inline_user_defined_function
            if udf.python_udf.eval_type in AGGREGATE_UDFS:
                yield BeyondRow(f"{udf.function_name}() over groups")
        case _:
            pass
    for part in children(expression):
        yield from beyond_row(part)


def children(message: Any) -> Iterator[Any]:
    """The expressions directly inside a proto message; those of relations inside it are not its own."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for item in value if field.is_repeated else (value,):
            if not hasattr(item, "DESCRIPTOR"):  # an entry of a map
                continue
            if item.DESCRIPTOR.full_name == "spark.connect.Expression":
                yield item
            elif item.DESCRIPTOR.full_name not in ("spark.connect.Relation", "spark.connect.Expression.Literal"):
                yield from children(item)


def column_name(expression: Any) -> str:
    """The column that an expression is, without what qualifies it, or empty. Behind aliases it is not seen."""
    return qualified_name(expression)[1]


def qualified_name(expression: Any) -> tuple[str, str]:
    """The column that an expression is: the alias or struct it is said to be of, if any, and its name, or empty."""
    match expression.WhichOneof("expr_type"):
        case "unresolved_attribute":
            return _identifier(expression.unresolved_attribute.unparsed_identifier)
        case "expression_string":
            return sql_name(expression.expression_string.expression)
        case _:
            return "", ""


def sql_name(text: str) -> tuple[str, str]:
    """The same for SQL text that is nothing but a name."""
    return _identifier(text.strip()) if re.fullmatch(SQL_NAME, text.strip()) else ("", "")


def _identifier(text: str) -> tuple[str, str]:
    """Qualifier, if any, and name in an identifier of at most two parts, without quotes; else nothing."""
    match = _IDENTIFIER.fullmatch(text)
    if match is None:
        return "", ""
    first, second = (_unquoted(match[group] or "") for group in ("first", "second"))
    return (first, second) if second else ("", first)


def _unquoted(part: str) -> str:
    return part[1:-1].replace("``", "`") if part.startswith("`") else part


def _in_sql(text: str) -> Iterator[BeyondRow]:
    """The same for SQL text, of which only the words are looked at."""
    for match in _SQL_TOKEN.finditer(text):
        name = (match["name"] or "").strip("`").lower()
        if match["call"] and _is_beyond(name):
            yield BeyondRow(f"{name}() in SQL text")
        elif name in ("over", "select"):
            yield BeyondRow(f"{name.upper()} in SQL text")


def _is_beyond(name: str) -> bool:
    bare = name.rpartition(".")[2].strip("`").lower()
    return bare in AGGREGATES or bare in POSITIONAL or bare.startswith("pandas_")
