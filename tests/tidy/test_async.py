"""Tasks have an owner, and errors reach somebody."""

import ast
import re
from pathlib import Path

from tests.tidy.source import dotted, parsed, python_files, relative

BROAD_EXCEPT_ALLOWED = {
    "src/firesteel/adapters/ha/filesystem.py": "a thread's edge: whatever it raises is raised where the call came from",
    "src/firesteel/adapters/notifications/delivery.py": "the HTTP library's edge: whatever it raises for an event costs that event, and is logged",
    "src/firesteel/adapters/notifications/listeners.py": "the operator's own code is called: whatever it raises is logged, or refuses the start",
    "src/firesteel/adapters/notifications/notifier.py": "a receiver's edge: whatever making its event raises is logged, and harms no job",
    "src/firesteel/adapters/spark/session/attempt.py": "a thread's edge: whatever it raises is raised in whoever waits for it",
    "src/firesteel/adapters/spark/task/child.py": "the user's code ends here: whatever it raises becomes a failure as data",
    "src/firesteel/adapters/spark/task/errors.py": "describing a failure must not fail: PySpark is asked, and may not answer",
    "src/firesteel/adapters/spark/task/forkserver.py": "a forked process ends here and never returns into its parent's code",
    "src/firesteel/adapters/spark/scripts/program.py": "a user's program ends here: whatever it raises becomes an exit code and a failure",
    "src/firesteel/adapters/spark/task/process.py": "the user's code ends here: whatever it raises becomes a failure as data",
    "src/firesteel/cli/main.py": "the end of every command: a bug becomes a sentence, a trace and an exit code",
    "src/firesteel/pipeline/usercode.py": "the user's own code is called: whatever it raises becomes InvalidPipeline",
    "src/firesteel/rest/operations.py": "an operation's edge: a bug becomes its failure, which who asked for it is shown",
    "src/firesteel/adapters/spark/streams/queries.py": "stopping one query: whatever Spark says of it, the others are stopped, and it fails the attempt",
    "src/firesteel/rest/app.py": "a request's edge: a bug becomes an answer 500 and a line in the log, and never ends the endpoint",
    "src/firesteel/testing/simulation/endpoints/run.py": "whatever a simulated run raises is reported with its seed and story",
    "src/firesteel/testing/virtualtime.py": "a thread's edge: whatever a call raises is raised where it is awaited",
    "src/firesteel/testing/simulation/cores/run.py": "whatever a simulated run raises is reported with its seed and story",
    "src/firesteel/runtime/background.py": "one of many looks: one that fails is logged, and ends neither the looking nor its owner",
    "src/firesteel/runtime/endpoint.py": "a mailbox: a bug ends this endpoint, reported, and never the process",
    "src/firesteel/runtime/metrics.py": "an adapter's edge: a source of figures that raises is left out, and that is logged",
    "src/firesteel/runtime/taskexecutor.py": "a backend's edge: whatever it raises becomes a failure as data, or is logged",
}
"""Files in which `except Exception` may stand, each with the reason."""


def catches_all(handler: ast.ExceptHandler) -> bool:
    """`except:`, `except Exception`, `except BaseException`, alone or in a tuple; re-raising ones are fine."""
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    broad = any(kind is None or dotted(kind) in ("Exception", "BaseException") for kind in types)
    last = handler.body[-1]
    return broad and not (isinstance(last, ast.Raise) and last.exc is None)


def is_on_loop(node: ast.Call) -> bool:
    """A task started on a loop, outside any task group."""
    if not isinstance(node.func, ast.Attribute) or node.func.attr != "create_task":
        return False
    owner = node.func.value
    name = dotted(owner.func if isinstance(owner, ast.Call) else owner)
    return name.split(".")[-1].endswith("loop")


def broad_excepts(file: Path) -> list[str]:
    """`file:line` of each handler that catches everything."""
    nodes = ast.walk(parsed(file))
    lines = [node.lineno for node in nodes if isinstance(node, ast.ExceptHandler) and catches_all(node)]
    return [f"{relative(file)}:{line}" for line in lines]


def test_broad_except_only_at_the_edges() -> None:
    files = [file for file in python_files("src") if relative(file) not in BROAD_EXCEPT_ALLOWED]
    found = [place for file in files for place in broad_excepts(file)]
    assert not found, f"name what can go wrong, or add the file with its reason to BROAD_EXCEPT_ALLOWED: {found}"


def test_allowance_is_used() -> None:
    """An allowance that nobody needs any more goes."""
    present = {relative(file): file for file in python_files("src")}
    idle = [name for name in BROAD_EXCEPT_ALLOWED if name in present and not broad_excepts(present[name])]
    assert not idle, idle


def test_tasks_are_started_in_a_task_group() -> None:
    found = [
        f"{relative(file)}:{node.lineno}"
        for file in python_files("src")
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.Call) and is_on_loop(node)
    ]
    assert not found, f"a task outside a task group is lost with its error: {found}"


def test_exceptions_to_a_ban_say_why() -> None:
    """ruff bans a bare `asyncio.create_task`; who needs one says who keeps it and sees its error."""
    unexplained = [
        f"{relative(file)}:{number}"
        for file in python_files("src")
        for number, line in enumerate(file.read_text().splitlines(), start=1)
        if re.search(r"noqa: *TID251\s*$", line)
    ]
    assert not unexplained, f"write `# noqa: TID251 - why`: {unexplained}"
