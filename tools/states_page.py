"""Write docs/states.md, state diagrams and their tables, from the transition tables of the core: `make docs`."""

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TypeVar

from firesteel.core.dispatcher.jobentry import JOB_STAGE_TRANSITIONS
from firesteel.core.execution.states import EXECUTION_TRANSITIONS
from firesteel.core.leadership.contender import CONTENDER_TRANSITIONS
from firesteel.core.scheduler.jobstates import job_transitions
from firesteel.core.slots.table import TASK_SLOT_TRANSITIONS

PAGE = "docs/states.md"
HEAD = """\
# States

Generated from the transition tables in `src/firesteel/core` by `make docs`. A move that is not here
raises `InvalidTransition`.
"""

State = TypeVar("State", bound=Enum)


def render() -> str:
    """The whole page."""
    sections = (
        section("A job", job_transitions()),
        section("An attempt", EXECUTION_TRANSITIONS.edges),
        section("A slot, at its worker", TASK_SLOT_TRANSITIONS.edges),
        section("A job, at the Dispatcher", JOB_STAGE_TRANSITIONS.edges),
        section("A contender for leadership", CONTENDER_TRANSITIONS.edges),
    )
    return HEAD + "".join(sections)


def section(title: str, edges: Mapping[tuple[State, State], str]) -> str:
    """A diagram and the sentence for each of its arrows."""
    arrows = "".join(f"    {source.name} --> {target.name}\n" for source, target in edges)
    rows = "".join(f"| {source.name} | {target.name} | {when} |\n" for (source, target), when in edges.items())
    diagram = f"```mermaid\nstateDiagram-v2\n{arrows}```"
    return f"\n## {title}\n\n{diagram}\n\n| From | To | When |\n|---|---|---|\n{rows}"


if __name__ == "__main__":
    (Path(__file__).resolve().parent.parent / PAGE).write_text(render())
