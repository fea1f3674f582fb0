"""Words of the code that had several meanings, and keep one: what a function of that name takes, and what a class is."""

import ast

import pytest

from tests.tidy.source import parsed, python_files


def functions() -> list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    nodes = [(str(file), node) for file in python_files("src") for node in ast.walk(parsed(file))]
    return [(file, node) for file, node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def test_only_events_are_told() -> None:
    """Who sends a message, writes a line or shows something says so."""
    wrong = []
    for file, function in functions():
        if function.name.lstrip("_").split("_")[0] == "tell":
            taken = [ast.unparse(each.annotation) for each in function.args.args if each.annotation]
            if function.name.lstrip("_") != "tell" or not taken or not taken[0].endswith("Event"):
                wrong.append(f"{file}: {function.name}({', '.join(taken)})")
    assert not wrong, "`tell` hands an event to an endpoint: use send, narrate, show or announce"


@pytest.mark.parametrize("name", ["Attachments", "ClusterClient", "Endpoint"])
def test_a_class_has_its_name_alone(name: str) -> None:
    classes = [node for file in python_files("src") for node in parsed(file).body if isinstance(node, ast.ClassDef)]
    assert [each.name for each in classes].count(name) == 1
