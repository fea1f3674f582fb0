"""Attachments of a job beside its package: Python files, data files and archives, as `spark-submit` names them."""

import contextlib
import hashlib
import os
import shutil
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from firesteel.model.jobgraph import ARCHIVE_ENDINGS, Artifact, is_plain_name
from firesteel.pipeline.errors import InvalidPipeline
from firesteel.pipeline.packaging import pack_directory, store_artifact

PYTHON_ENDINGS = (".py", ".zip", ".whl", ".egg")


class Attachments(msgspec.Struct, frozen=True, kw_only=True):
    """Paths at the client. Those of files and archives may end in `#NAME`: what they are called on the worker."""

    py_files: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()


NOTHING_ATTACHED = Attachments()


class Attached(msgspec.Struct, frozen=True):
    """An artifact with its file at the client."""

    artifact: Artifact
    path: Path


@contextlib.contextmanager
def on_module_path(attachments: Attachments) -> Iterator[None]:
    """Have the Python files importable, from copies, within the block. Raises InvalidPipeline."""
    if not attachments.py_files:
        yield
        return
    before = list(sys.path)
    with tempfile.TemporaryDirectory(prefix="firesteel-py-files-") as scratch:
        for number, given in enumerate(attachments.py_files):
            directory = Path(scratch, str(number))
            directory.mkdir()
            _unpack(_existing(given, "--py-files"), directory)
            sys.path.append(os.fspath(directory))
        try:
            yield
        finally:
            sys.path[:] = before
            _forget_modules(Path(scratch))


def attach(attachments: Attachments, directory: Path, limit_mib: int) -> list[Attached]:
    """Their artifacts; what has to be made for that is written into `directory`. Raises InvalidPipeline."""
    made = [_python(_existing(given, "--py-files"), directory) for given in attachments.py_files]
    made += [_placed(given, "file", "--files") for given in attachments.files]
    made += [_placed(given, "archive", "--archives") for given in attachments.archives]
    _check_names("--py-files", (each.artifact.name for each in made if not each.artifact.is_placed))
    _check_names("--files and --archives", (each.artifact.target for each in made if each.artifact.is_placed))
    for each in made:
        if each.artifact.size_bytes > limit_mib << 20:
            size = f"{each.artifact.size_bytes / (1 << 20):.1f} MiB"
            raise InvalidPipeline(f"{each.artifact.name} has {size}, and blob.size.max is {limit_mib} MiB")
    return made


def _python(file: Path, directory: Path) -> Attached:
    if file.suffix == ".py":
        content = pack_directory(file.parent, (), {file.name: file})
        return Attached(*store_artifact(directory, file.name, "code", content))
    return Attached(_artifact(file.name, "code", file), file)


def _placed(given: str, kind: str, option: str) -> Attached:
    text, sign, target = given.partition("#")
    file = _existing(text, option)
    if not all(map(is_plain_name, (file.name, target or file.name))) or bool(sign) != bool(target):
        raise InvalidPipeline(
            f"{option} {given}: a worker can't call a file so; write {option} PATH#NAME with a plain NAME"
        )
    artifact = _artifact(f"{file.name}{sign}{target}", kind, file)
    if kind == "archive":
        _check_archive(artifact, file)
    return Attached(artifact, file)


def _artifact(name: str, kind: str, path: Path) -> Artifact:
    try:
        with open(path, "rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        return Artifact(name=name, kind=kind, sha256=digest, size_bytes=path.stat().st_size)
    except OSError as error:
        raise InvalidPipeline(f"can't read {path}: {error.strerror}") from None


def _check_archive(artifact: Artifact, file: Path) -> None:
    if not artifact.ending:
        raise InvalidPipeline(f"--archives {file}: its name must end in {', '.join(ARCHIVE_ENDINGS)}")
    is_sound = zipfile.is_zipfile(file) if artifact.ending == ".zip" else tarfile.is_tarfile(file)
    if not is_sound:
        raise InvalidPipeline(f"--archives {file}: it is no {artifact.ending} archive")


def _existing(given: str, option: str) -> Path:
    file = Path(os.path.abspath(given.removeprefix("file://")))
    if not file.is_file():
        raise InvalidPipeline(f"{option} {given}: {'it is no file' if file.exists() else 'no such file'}")
    if option == "--py-files":
        if file.suffix not in PYTHON_ENDINGS:
            raise InvalidPipeline(f"{option} {given}: its name must end in {', '.join(PYTHON_ENDINGS)}")
        if file.suffix != ".py" and not zipfile.is_zipfile(file):
            raise InvalidPipeline(f"{option} {given}: it is no zip archive")
    return file


def _check_names(options: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidPipeline(f"{options} name {name} twice")
        seen.add(name)


def _unpack(file: Path, directory: Path) -> None:
    try:
        if file.suffix == ".py":
            shutil.copy(file, directory)
            return
        with zipfile.ZipFile(file) as archive:
            archive.extractall(directory)
    except (OSError, zipfile.BadZipFile) as error:
        raise InvalidPipeline(f"--py-files {file}: it can't be read: {error}") from None


def _forget_modules(directory: Path) -> None:
    """Their files go: another job of this process must not get them."""
    below = os.fspath(directory) + os.sep
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(below):
            del sys.modules[name]
