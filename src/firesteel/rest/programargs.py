"""A program's arguments as clients of Flink's API send them: a list, or one text, in the body or as a query parameter."""

import re

from firesteel.rest.call import Call
from firesteel.rest.errors import bad_request
from firesteel.rest.schema.jars import JarRunRequestBody

_WORD = re.compile(r"""([^"']\S*|".+?"|'.+?')\s*""")
"""Flink's own rule: quotes hold words together where a word begins with them."""


def program_arguments(call: Call, body: JarRunRequestBody) -> tuple[str, ...]:
    """The body's, else the query's. Raises RestError when they are said twice over."""
    given = _one_of(("programArgsList", body.program_args_list), ("programArgs", body.program_args))
    if given is None:
        queried = call.query["programArg"]
        as_list = queried.split(",") if queried else None
        given = _one_of(("programArg", as_list), ("program-args", call.query["program-args"] or None))
    return () if given is None else tuple(given)


def split_arguments(text: str) -> list[str]:
    """The words of a text, without their quotes."""
    return [match[0].strip().replace('"', "").replace("'", "") for match in _WORD.finditer(text.strip())]


def _one_of(as_list: tuple[str, list[str] | None], as_text: tuple[str, str | None]) -> list[str] | None:
    if as_list[1] is not None and as_text[1] is not None:
        raise bad_request(f"The program's arguments are given twice: leave {as_list[0]} or {as_text[0]} out.")
    return as_list[1] if as_text[1] is None else split_arguments(as_text[1])
