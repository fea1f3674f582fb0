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
    """`element_at(array(cast(null as TYPE)), size(array(ARGUMENT)) * ...)`: of any type and any arguments, and no constant."""
    import pyspark.sql.connect.proto as pb2

    made = pb2.Expression()
    nulls, place = _function(made, "element_at", 2)
    (null,) = _function(nulls, "array", 1)
    null.cast.expr.literal.null.null.SetInParent()
    _set_type(null.cast, called.python_udf.output_type)
    arguments = [_value_of(each) for each in called.arguments]
    if all(each.HasField("literal") for each in arguments):  # a function in Python is none either
        arguments = [_never()]
    for argument in arguments[1:]:
        size, place = _function(place, "*", 2)
        _set_size(size, argument)
    _set_size(place, arguments[0])
    return made


def _set_size(place: Any, argument: Any) -> None:
    (array,) = _function(place, "size", 1)
    (element,) = _function(array, "array", 1)
    element.CopyFrom(argument)


def _function(place: Any, name: str, arguments: int) -> list[Any]:
    """Make `place` a call of that function; its arguments, to be filled in."""
    place.unresolved_function.function_name = name
    return [place.unresolved_function.arguments.add() for _ in range(arguments)]


def _value_of(argument: Any) -> Any:
    return argument.named_argument_expression.value if argument.HasField("named_argument_expression") else argument


def _never() -> Any:
    import pyspark.sql.connect.proto as pb2

    made = pb2.Expression()
    (message,) = _function(made, "raise_error", 1)
    message.literal.string = "it is planned only"
    return made


def _set_type(cast: Any, output_type: Any) -> None:
    if output_type.HasField("unparsed"):
        cast.type_str = output_type.unparsed.data_type_string
    else:
        cast.type.CopyFrom(output_type)
