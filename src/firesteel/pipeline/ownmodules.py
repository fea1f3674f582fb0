"""Modules that functions of this process need and a worker lacks: the user's own, found by what imports them."""

import contextlib
import dis
import functools
import importlib.util
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

from firesteel.pipeline.packaging import PackedFile

_ON_EVERY_WORKER = frozenset(("__main__", "__mp_main__", "firesteel", "pyspark", "py4j"))
"""Names that mean a module of the worker's there, wherever they come from here."""

_INSTALLED = {"site-packages", "dist-packages"}
_STANDARD_LIBRARY = {Path(sysconfig.get_path(kind)) for kind in ("stdlib", "platstdlib")}


def is_own_module(name: str) -> bool:
    """Whether a module comes from a Python file of the user's, and not from an installation."""
    return _source(name) is not None


def own_modules(functions: Iterable[Callable[..., object]]) -> list[PackedFile]:
    """Sources of the user's modules that the functions import, and those import, also when they are called.

    Nothing is imported to find that. Modules that only the run names (`importlib.import_module`) are not found.
    """
    left = [name for function in functions for name in _named_by(function)]
    found: dict[str, PackedFile] = {}
    while left:
        name = left.pop()
        source = None if name in found else _source(name)
        if source is not None:
            is_package = source.name == "__init__.py"
            inside = name.replace(".", "/") + ("/__init__.py" if is_package else ".py")
            found[name] = PackedFile(source, inside, source.stat().st_size)
            above = name.rpartition(".")[0]
            left += [above, *_imported_by(source, source.stat().st_mtime_ns, name if is_package else above)]
    return list(found.values())


def _named_by(function: Callable[..., object]) -> Iterator[str]:
    """Names of modules that a function may look into, and those may that it wraps or has in its closure."""
    left: list[object] = [function]
    seen: set[int] = set()
    while left:
        each = left.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield from _module_of(each)
        if each is function or isinstance(each, FunctionType):
            yield from _imports(getattr(each, "__code__", None), "")
            for value in list(getattr(each, "__globals__", {}).values()):  # other threads may add some
                yield from _module_of(value)
            left += [getattr(each, "__wrapped__", None), *_closure(each)]


def _module_of(value: object) -> Iterator[str]:
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    if isinstance(name, str):
        yield name


def _closure(function: object) -> Iterator[object]:
    """What its variables of enclosing functions are, of those that are set."""
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):
            yield cell.cell_contents


@functools.lru_cache(1000)
def _imported_by(source: Path, written_ns: int, package: str) -> tuple[str, ...]:
    """Names of what a module of a package imports, some of them not of modules, as of when it was `written_ns`."""
    try:
        code = compile(source.read_bytes(), source, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError):
        return ()
    return tuple(_imports(code, package))


def _imports(code: CodeType | None, package: str) -> Iterator[str]:
    """Names that a code imports, and all codes in it. CPython puts level and names before each import (`dis`)."""
    if code is None:
        return
    before: list[object] = [None, None]
    may_import = dis.opmap["IMPORT_NAME"] in code.co_code[::2]
    for instruction in dis.get_instructions(code) if may_import else ():
        if instruction.opname == "IMPORT_NAME":
            level, names = before
            relative = "." * level if isinstance(level, int) else ""
            with contextlib.suppress(ImportError):  # relative, and beyond all packages
                name = importlib.util.resolve_name(relative + instruction.argval, package)
                yield name
                yield from (f"{name}.{each}" for each in (names if isinstance(names, tuple) else ()))
        before = [before[1], instruction.argval]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _imports(constant, package)


def _source(name: str) -> Path | None:
    """The file of a module, if it is a Python file of the user's."""
    if not name or name.partition(".")[0] in _ON_EVERY_WORKER or name in sys.builtin_module_names:
        return None
    spec = _spec(name)
    if spec is None or spec.origin is None or not spec.has_location or not spec.origin.endswith(".py"):
        return None
    path = Path(spec.origin)
    is_installed = _INSTALLED & {*path.parts} or _STANDARD_LIBRARY & {*path.parents}
    return path if not is_installed and path.is_file() else None


def _spec(name: str) -> ModuleSpec | None:
    """Where a module comes from, without an import of those above it."""
    loaded: ModuleSpec | None = getattr(sys.modules.get(name), "__spec__", None)
    if loaded is not None:
        return loaded
    above, _, last = name.rpartition(".")
    if not above:
        return PathFinder.find_spec(name)
    package = _spec(above)
    places = package.submodule_search_locations if package is not None else None
    # By its last name: a namespace of a longer one asks for those above it when it is looked into.
    return PathFinder.find_spec(last, list(places)) if places is not None else None
