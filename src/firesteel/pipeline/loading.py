"""Loading: run the user's file as a module of its own and find its Pipeline."""

import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import msgspec

from firesteel.pipeline.authoring import Pipeline
from firesteel.pipeline.declarations import need_no_session
from firesteel.pipeline.errors import InvalidPipeline, shown_path
from firesteel.pipeline.packaging import module_root
from firesteel.pipeline.usercode import is_below, run_user_code


class LoadedPipeline(msgspec.Struct, frozen=True):
    """A pipeline with the file it came from."""

    pipeline: Pipeline
    file: Path
    root: Path
    """Directory that is on the module path, here and on the workers."""
    module: str
    """Name the file was loaded under; not the file's own where that would hide another module."""
    symbols: dict[str, dict[str, object]]
    """Names that the modules below `root` define, by module name: how functions are found again by name."""


@contextlib.contextmanager
def loaded_pipeline(reference: str) -> Iterator[LoadedPipeline]:
    """Run the file `FILE` or `FILE:NAME` and yield its pipeline; the file's modules go at the end.

    What the file prints goes to standard error. Raises InvalidPipeline for everything that is
    wrong with the file, with the line and the user's traceback.
    """
    file, chosen = _split_reference(reference)
    root, module_name = module_root(file)
    if not _is_safe_name(module_name):
        module_name = alias_of(file)
    before = dict(sys.modules)
    path_before = list(sys.path)
    sys.path.insert(0, os.fspath(root))
    try:
        with _connect_mode(), contextlib.redirect_stdout(sys.stderr):
            module = _execute(file, module_name, root)
        pipeline = _find(module, file, chosen)
        yield LoadedPipeline(pipeline, file, root, module_name, _symbols_below(root))
    finally:
        sys.path[:] = path_before
        for name, module in list(sys.modules.items()):
            if before.get(name) is not module and _is_below(module, root):
                sys.modules.pop(name, None)
                if name in before:
                    sys.modules[name] = before[name]


def load_pipeline(reference: str) -> Pipeline:
    """The pipeline of `FILE` or `FILE:NAME`. Raises InvalidPipeline."""
    with loaded_pipeline(reference) as loaded:
        return loaded.pipeline


def alias_of(file: Path) -> str:
    """A module name for a file whose own name can't be imported, or would hide another module."""
    return "pipeline_" + "".join(
        character if character.isalnum() and character.isascii() else "_" for character in file.stem
    )


def _split_reference(reference: str) -> tuple[Path, str]:
    path, chosen = reference, ""
    if not os.path.exists(path) and ":" in reference:
        path, _, chosen = reference.rpartition(":")
    file = Path(os.path.abspath(path))
    if not file.exists():
        raise InvalidPipeline(f"no such file: {path if os.path.exists(path) else reference}{_files_nearby(file)}")
    if file.is_dir():
        raise InvalidPipeline(f"{path} is a directory: name the Python file in it that declares the pipeline")
    if file.suffix != ".py":
        raise InvalidPipeline(f"{path} is no Python file: its name must end in .py")
    return file, chosen


def _files_nearby(file: Path) -> str:
    from firesteel.pipeline.definition import did_you_mean

    try:
        return did_you_mean(file.name, sorted(each.name for each in file.parent.glob("*.py")))
    except OSError:
        return ""


def _is_safe_name(module_name: str) -> bool:
    """Whether a worker can import the name and gets the user's file, and the file hides nothing by it."""
    parts = module_name.split(".")
    if not all(part.isidentifier() for part in parts):
        return False
    if parts[0] in sys.stdlib_module_names or parts[0] == "__main__":
        return False
    known = sys.modules.get(parts[0])
    return known is None and parts[0] not in ("firesteel", "pyspark", "pandas", "numpy", "pyarrow", "py4j")


def _execute(file: Path, module_name: str, root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(module_name, file)
    assert spec is not None, "a .py file has a spec"
    loader = spec.loader
    assert loader is not None, "a .py file has a loader"
    for parent in _parents(module_name):
        run_user_code(partial(importlib.import_module, parent), root, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    run_user_code(partial(loader.exec_module, module), root, file)
    return module


def _parents(module_name: str) -> list[str]:
    parts = module_name.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts))]


def _find(module: ModuleType, file: Path, chosen: str) -> Pipeline:
    found = {name: value for name, value in vars(module).items() if isinstance(value, Pipeline)}
    pipelines = list({id(pipeline): pipeline for pipeline in found.values()}.values())
    shown = shown_path(os.fspath(file))
    if chosen:
        matches = [value for name, value in found.items() if chosen in (name, value.name)]
        if not matches:
            raise InvalidPipeline(f"{shown} has no pipeline {chosen!r}; it has {', '.join(found) or 'none'}")
        return matches[0]
    if not pipelines:
        raise InvalidPipeline(f'{shown} has no pipeline: assign one at module level, like pipeline = Pipeline("name")')
    if len(pipelines) > 1:
        choices = ", ".join(f"{shown}:{name}" for name in found)
        raise InvalidPipeline(f"{shown} has {len(pipelines)} pipelines: choose one of {choices}")
    return pipelines[0]


def _symbols_below(root: Path) -> dict[str, dict[str, object]]:
    return {name: vars(module) for name, module in list(sys.modules.items()) if _is_below(module, root)}


def _is_below(module: ModuleType, root: Path) -> bool:
    name = getattr(module, "__file__", None)
    return bool(name) and is_below(str(name), root)


@contextlib.contextmanager
def _connect_mode() -> Iterator[None]:
    """Column expressions and declared functions at module level must not ask for a JVM."""
    need_no_session()
    key = "SPARK_CONNECT_MODE_ENABLED"
    before = os.environ.get(key)
    os.environ[key] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[key]
        else:
            os.environ[key] = before
