"""What stands for functions in Python when a plan is asked about: Spark forgets behind them how rows are laid out.

They are run outside of the plan, by an operator of their own that says nothing of its partitions, so a join behind one has an
exchange, though rows are where they were. A function of the JVM with the same arguments and type has none.
"""

from typing import Any

from firesteel.adapters.spark.shares.walking import python_calls

_BATCHED, _ARROW_BATCHED = 100, 101
_PANDAS, _PANDAS_ITERATOR = 200, 204
_ARROW, _ARROW_ITERATOR = 250, 251
_ROW_BY_ROW = frozenset((_BATCHED, _ARROW_BATCHED, _PANDAS, _PANDAS_ITERATOR, _ARROW, _ARROW_ITERATOR))
"""Kinds of functions that give a value for each row (`pyspark.util.PythonEvalType`)."""


def stand_in_for_python(node: Any) -> None:
    """Replace, in place, functions in Python among the expressions of a relation's own. Those that are not deterministic stay."""
    for expression in reversed(python_calls(node)):  # what is inside comes first
        called = expression.common_inline_user_defined_function
        if called.deterministic and called.python_udf.eval_type in _ROW_BY_ROW:
            expression.CopyFrom(_stand_in(called))


def _stand_in(called: Any) -> Any:
    """`from_json(cast(hash(arguments) as string), 'v TYPE').v`: of any type, and nothing that Spark could know more of."""
    import pyspark.sql.connect.proto as pb2

    hashed = pb2.Expression()
    hashed.unresolved_function.function_name = "hash"
    hashed.unresolved_function.arguments.extend(called.arguments)
    if not called.arguments:
        hashed.unresolved_function.arguments.add().literal.integer = 0
    made = pb2.Expression()
    parsed = made.unresolved_extract_value.child.unresolved_function
    parsed.function_name = "from_json"
    text = parsed.arguments.add().cast
    text.expr.CopyFrom(hashed)
    text.type_str = "string"
    parsed.arguments.add().literal.string = f"v {_type_text(called.python_udf.output_type)}"
    made.unresolved_extract_value.extraction.literal.string = "v"
    return made


def _type_text(output_type: Any) -> str:
    from pyspark.sql.connect.types import proto_schema_to_pyspark_data_type

    if output_type.HasField("unparsed"):
        return str(output_type.unparsed.data_type_string)
    return str(proto_schema_to_pyspark_data_type(output_type).simpleString())
