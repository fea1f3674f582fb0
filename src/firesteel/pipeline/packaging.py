"""Packaging: the user's directory as a deterministic zip, functions of a notebook as a pickle."""

import contextlib
import hashlib
import io
import os
import secrets
import stat
import sys
import threading
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from firesteel.model.jobgraph import Artifact
from firesteel.pipeline.errors import InvalidPipeline
from firesteel.pipeline.usercode import pickled

EXCLUDED_DIRECTORIES = frozenset((
    ".git", ".hg", ".svn", ".venv", "venv", ".tox", ".nox", "node_modules", "__pycache__", ".ipynb_checkpoints",
    ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".idea", ".vscode", "spark-warehouse", "metastore_db",
))  # fmt: skip
EXCLUDED_SUFFIXES = (".pyc", ".pyo", ".egg-info", ".crc", ".swp")
EXCLUDED_NAMES = frozenset((".DS_Store", "Thumbs.db", "derby.log", ".env"))
EXCLUDED_MARKS = (
    ("pyvenv.cfg",), ("worker.lock",), ("_firesteel_storage",), ("processes.json", "log"),
    ("savepoint.json",), ("metadata", "offsets", "commits"),
)  # fmt: skip
"""What is in directories that hold no code: environments; those of workers, of their results, and of clusters, with all they ran
before; savepoints and checkpoints of streams."""
MAX_FILES = 10_000
DATA_FILE_BYTES = 1024 * 1024
"""A file of at least this size that a parameter names is data, not code."""
_EPOCH = (1980, 1, 1, 0, 0, 0)


class PackedFile(msgspec.Struct, frozen=True):
    path: Path
    name: str
    """Name in the package, with `/`."""
    size_bytes: int


def pack_directory(root: Path, files: Iterable[PackedFile], aliases: Mapping[str, Path]) -> bytes:
    """A zip with equal bytes for equal files. `aliases` are further names for files, as module sources.

    Directories have entries: without, Python finds no package that has no `__init__.py` in a zip. A file that has gone
    since it was listed, as temporary ones do, is left out.
    """
    found = {file.name: file.path for file in files} | dict(aliases)
    entries = {name: content for name in sorted(found) if (content := _content(found[name], root)) is not None}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for directory in sorted({above for name in entries for above in _directories(name)}):
            archive.writestr(zipfile.ZipInfo(directory, _EPOCH), b"")
        for name, content in entries.items():
            info = zipfile.ZipInfo(name, _EPOCH)
            info.compress_type, info.create_system = zipfile.ZIP_DEFLATED, 3
            info.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(info, content)
    return buffer.getvalue()


def package_files(
    root: Path,
    pipeline_file: Path,
    *,
    limit_mib: int,
    data: Iterable[Path] = (),
    modules: Iterable[Path] = (),
    code_endings: tuple[str, ...] = (),
) -> list[PackedFile]:
    """Files of `root` that travel with a job, sorted by name.

    Left out: what .gitignore files say, caches and environments (EXCLUDED_*), symbolic links to
    directories, and `data`: paths that parameters name, where they are large, or directories in
    which none of the job's `modules` lies. With `code_endings`, all large files that end otherwise.
    The pipeline's own file is always in.
    Raises InvalidPipeline when there is too much.
    """
    code = (pipeline_file, *modules)
    named = (each for each in data if not any(file.is_relative_to(os.path.abspath(each)) for file in code))
    is_data = _data_filter(named, code_endings)
    chosen: list[PackedFile] = []
    for path in _walk(root, is_data):
        if len(chosen) == MAX_FILES:
            tops = Counter(file.name.split("/")[0] + "/" for file in chosen if "/" in file.name).most_common(3)
            most = f", most of them below {', '.join(name for name, _ in tops)}" if tops else ""
            raise InvalidPipeline(
                f"the package of {root} has more than {MAX_FILES} files{most}: put the pipeline into a directory of"
                " its own, or name what isn't code in .gitignore"
            )
        with contextlib.suppress(FileNotFoundError):  # it was there a moment ago
            chosen.append(PackedFile(path, path.relative_to(root).as_posix(), path.stat().st_size))
    if all(file.path != pipeline_file for file in chosen):
        name = pipeline_file.relative_to(root).as_posix()
        chosen.append(PackedFile(pipeline_file, name, pipeline_file.stat().st_size))
    _check_size(root, chosen, limit_mib)
    return sorted(chosen, key=lambda file: file.name)


_REGISTERING = threading.Lock()
"""One build at a time: what cloudpickle takes by value is a setting of the whole process."""


def store_artifact(directory: Path, name: str, kind: str, content: bytes) -> tuple[Artifact, Path]:
    """Write `content` into `directory` under its SHA-256, whole at once: other builds may write and read it there."""
    digest = hashlib.sha256(content).hexdigest()
    path = directory / digest
    new = directory / f".{digest}-{secrets.token_hex(8)}"
    try:
        new.write_bytes(content)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    return Artifact(name=name, kind=kind, sha256=digest, size_bytes=len(content)), path


def pickle_functions(functions: Mapping[str, Callable[..., object]], by_value: Iterable[str] = ()) -> bytes:
    """A cloudpickle of the dict. Modules named in `by_value` travel inside it. Raises InvalidPipeline."""
    import cloudpickle

    with _REGISTERING:
        known = cloudpickle.list_registry_pickle_by_value()
        names = [name for name in dict.fromkeys(by_value) if name in sys.modules and name not in {"__main__", *known}]
        for name in names:
            cloudpickle.register_pickle_by_value(sys.modules[name])
        try:
            return pickled(lambda: bytes(cloudpickle.dumps(dict(functions), protocol=5)), ", ".join(functions))
        finally:
            for name in names:
                cloudpickle.unregister_pickle_by_value(sys.modules[name])


def module_root(file: Path) -> tuple[Path, str]:
    """The directory to have on the module path for `file`, and its module name there."""
    root, parts = file.parent, [file.stem]
    while (root / "__init__.py").is_file() and root.name.isidentifier() and root.parent != root:
        parts.insert(0, root.name)
        root = root.parent
    return root, ".".join(parts)


def _directories(name: str) -> list[str]:
    """Names of the directories that the file lies in, as entries of a zip."""
    parts = name.split("/")
    return ["/".join(parts[:length]) + "/" for length in range(1, len(parts))]


def _content(path: Path, root: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidPipeline(
            f"can't read {path} for the package of {root}: {error.strerror}; name it in .gitignore to leave it out"
        ) from None


def _walk(root: Path, is_data: Callable[[Path], bool]) -> Iterator[Path]:
    rules = _IgnoreRules(root)
    for parent, directories, names in os.walk(root):
        here = Path(parent)
        rules.enter(here)
        directories[:] = sorted(name for name in directories if _is_code_directory(here / name, rules, is_data))
        for name in sorted(names):
            path = here / name
            if name in EXCLUDED_NAMES or name.endswith(EXCLUDED_SUFFIXES) or is_data(path):
                continue
            if path.is_file() and _is_portable(name) and not rules.ignores(path, is_directory=False):
                yield path


def _is_code_directory(path: Path, rules: "_IgnoreRules", is_data: Callable[[Path], bool]) -> bool:
    excluded = path.name in EXCLUDED_DIRECTORIES or path.name.endswith(EXCLUDED_SUFFIXES)
    if excluded or path.is_symlink() or is_data(path) or not _is_portable(path.name):
        return False
    is_marked = any(all((path / mark).exists() for mark in marks) for marks in EXCLUDED_MARKS)
    return not is_marked and not rules.ignores(path, is_directory=True)


def _is_portable(name: str) -> bool:
    """A name that is no valid text (bytes of another encoding) can't be imported, nor stored in a zip."""
    return not any("\udc80" <= character <= "\udcff" for character in name)


def _data_filter(data: Iterable[Path], code_endings: tuple[str, ...]) -> Callable[[Path], bool]:
    named = {os.path.abspath(path) for path in data}

    def is_data(path: Path) -> bool:
        if path.is_dir():
            return os.fspath(path) in named
        may_be = os.fspath(path) in named or (code_endings and not path.name.endswith(code_endings))
        return bool(may_be) and path.is_file() and path.stat().st_size >= DATA_FILE_BYTES

    return is_data


def _check_size(root: Path, files: list[PackedFile], limit_mib: int) -> None:
    total = sum(file.size_bytes for file in files)
    if total <= limit_mib * 1024 * 1024:
        return
    largest = sorted(files, key=lambda file: (-file.size_bytes, file.name))[:5]
    listing = ", ".join(f"{file.name} ({_mib(file.size_bytes)})" for file in largest)
    raise InvalidPipeline(
        f"the package of {root} has {_mib(total)}, and pipeline.package.size-limit is {limit_mib} MiB;"
        f" the largest files: {listing}. Name what isn't code in .gitignore, or raise the limit"
    )


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 1024 / 1024:.1f} MiB"


class _IgnoreRules:
    """The .gitignore files that apply below a directory: its own, those inside, those above up to the repository."""

    def __init__(self, root: Path) -> None:
        self._specs: dict[Path, object] = {}
        above: list[Path] = []
        for directory in root.parents:
            above.append(directory)
            if (directory / ".git").exists():
                break
        else:
            above = []
        if not (root / ".git").exists():
            for directory in above:
                self.enter(directory)

    def enter(self, directory: Path) -> None:
        try:
            lines = (directory / ".gitignore").read_text(errors="replace").splitlines()
        except OSError:
            return
        import pathspec

        self._specs[directory] = pathspec.GitIgnoreSpec.from_lines(lines)

    def ignores(self, path: Path, *, is_directory: bool) -> bool:
        if not self._specs:
            return False
        for directory in path.parents:  # The nearest file that says anything decides.
            spec = self._specs.get(directory)
            if spec is not None:
                relative = path.relative_to(directory).as_posix() + ("/" if is_directory else "")
                decision = spec.check_file(relative).include  # type: ignore[attr-defined]
                if decision is not None:
                    return bool(decision)
        return False
