"""Plain PySpark scripts: told from pipelines by a look at their source, and made jobs of one vertex."""

import ast
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from firesteel.model.ids import JobID, JobVertexID, derived_id
from firesteel.model.jobgraph import Artifact, Function, FunctionKind, JobGraph, JobVertex
from firesteel.model.options import Configuration
from firesteel.pipeline.authoring import Pipeline
from firesteel.pipeline.definition import FunctionDefinition
from firesteel.pipeline.errors import InvalidPipeline
from firesteel.pipeline.graph import current_environment
from firesteel.pipeline.overrides import overridden

DATA_ENDINGS_KEPT = (".py", ".zip", ".whl", ".egg", ".so")
"""Beside a script, larger files with other endings are data, and stay where they are."""


def is_script(reference: str) -> bool:
    """Whether a FILE is a plain script: a Python file without any import of firesteel. It is read, and never run.

    `FILE:NAME` names a pipeline. A file that can't be parsed counts by whether it has the word.
    """
    if not reference.endswith(".py"):
        return False
    try:
        source = Path(reference).read_bytes()
    except OSError:
        return False
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return b"firesteel" not in source
    return not any(map(_imports_firesteel, ast.walk(tree)))


def check_script(file: Path) -> None:
    """Raises InvalidPipeline when Python can't compile it."""
    try:
        compile(file.read_bytes(), os.fspath(file), "exec", dont_inherit=True)
    except SyntaxError as error:
        problem = f"syntax error: {error.msg}"
        raise InvalidPipeline(problem, file=os.fspath(file), line=error.lineno or 1) from None
    except (ValueError, RecursionError) as error:
        raise InvalidPipeline(f"Python can't compile it: {error}", file=os.fspath(file), line=1) from None


def script_graph(
    file: Path,
    arguments: Sequence[str],
    *,
    job_id: JobID,
    name: str,
    configuration: Mapping[str, str],
    overrides: Mapping[str, str],
    artifacts: Sequence[Artifact],
) -> JobGraph:
    """The job of a script: one vertex, one attempt unless `overrides` say otherwise. Raises InvalidPipeline."""
    definition = _definition(file, overrides)
    function = Function(
        name=definition.name,
        uid=definition.uid,
        kind=FunctionKind.SCRIPT,
        entry_point=file.name,
        wants_session=True,
        location=f"{file.name}:1",
        arguments=tuple(arguments),
    )
    vertex = JobVertex(
        id=JobVertexID(derived_id("vertex", definition.uid)),
        name=definition.name,
        functions=(function,),
        resources=definition.resources,
        max_attempts=definition.max_attempts,
        timeout_ms=definition.timeout_ms,
    )
    return JobGraph(
        job_id=job_id,
        name=name or file.stem,
        vertices=(vertex,),
        configuration=Configuration(configuration).of_job(),
        artifacts=tuple(artifacts),
        environment=current_environment(),
    )


def _definition(file: Path, overrides: Mapping[str, str]) -> FunctionDefinition:
    """Options of a script: what it does beside Spark happens again with each attempt, so there is one by default."""
    bare = FunctionDefinition(
        name=file.stem, kind=FunctionKind.SCRIPT, file=os.fspath(file), line=1, uid=file.stem, max_attempts=1
    )
    pipeline = Pipeline(file.stem)
    pipeline.add(bare)
    (definition,) = overridden(pipeline, overrides).definitions
    if definition.parallelism not in (None, 1):
        raise InvalidPipeline(f"{file.name} is a plain script: it runs as a whole, so its parallelism is 1")
    return definition


def _imports_firesteel(node: ast.AST) -> bool:
    match node:
        case ast.Import():
            names = [alias.name for alias in node.names]
        case ast.ImportFrom(level=0, module=str(module)):
            names = [module]
        case _:
            return False
    return any(name.partition(".")[0] == "firesteel" for name in names)
