"""Options of the configuration: each of them does something."""

import ast

from tests.tidy.source import parsed, python_files, relative

OPTIONS = "src/firesteel/model/options/"


def test_each_option_is_read() -> None:
    defined, read = dict[str, str](), set[str]()
    for file in python_files("src"):
        nodes = list(ast.walk(parsed(file)))
        if relative(file).startswith(OPTIONS):
            defined |= {
                node.targets[0].id: relative(file)
                for node in nodes
                if isinstance(node, ast.Assign)
                and isinstance(node.targets[0], ast.Name)
                and isinstance(node.value, ast.Call)
                and isinstance(node.value.func, ast.Name)
                and node.value.func.id == "ConfigOption"
            }
        else:
            read |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
            read |= {node.id for node in nodes if isinstance(node, ast.Name)}
    assert len(defined) > 100
    assert not (idle := {name: file for name, file in defined.items() if name not in read}), idle
