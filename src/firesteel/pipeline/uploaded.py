"""A job of a file that somebody uploaded: a Python file, or a zip or wheel with one in it.

Runs in a process of its own on a worker: unpacking is what the file wants, and loading runs its code.
"""

import contextlib
import itertools
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from firesteel.pipeline.build import BuildFailure, BuildRequest, build_request
from firesteel.pipeline.scripts import is_script

UPLOAD_ENDINGS = (".py", ".zip", ".whl")

MEMBERS_MAX = 20_000
UNPACKED_BYTES_MAX = 2 << 30
SOURCES_MAX, SOURCE_BYTES_MAX = 1_000, 1 << 20
"""Python files of an archive that are searched for pipelines, and the size of each."""

DECLARATION = re.compile(rb"^(\w++)[^\n=]*+=\s*+(?:\w++\.)?Pipeline\(", re.MULTILINE)
"""A pipeline at module level, as most are declared: found without running anything. It never looks back: else one long
line would hold the master up for hours."""


class NotUsable(ValueError):
    """The author's fault: the file is none of what can be uploaded, or does not say which pipeline is meant."""


class UploadedFile(msgspec.Struct, frozen=True, kw_only=True):
    """Request to the child process."""

    file: str
    entry: str
    """`MODULE`, `MODULE:NAME`, `FILE.py`, `FILE.py:NAME`, or of a Python file just `NAME`; empty for the only one."""
    scratch: str
    """An existing directory for what is unpacked and made."""
    request: msgspec.Raw
    """JSON of a BuildRequest; its file and its output_dir are set here. Arguments of a pipeline are its parameters."""


def build_in_child(payload: bytes) -> bytes:
    """JSON of an UploadedFile in, JSON of a BuiltJob or BuildFailure out. Raises for a bug of ours only."""
    uploaded = msgspec.json.decode(payload, type=UploadedFile)
    request = msgspec.json.decode(uploaded.request, type=BuildRequest)
    try:
        reference = _reference(Path(uploaded.file), uploaded.entry, Path(uploaded.scratch, "content"))
        if not is_script(reference):
            request = msgspec.structs.replace(request, parameters=_parameters(request.arguments), arguments=())
    except NotUsable as error:
        return msgspec.json.encode(BuildFailure(message=str(error)))
    output = Path(uploaded.scratch, "artifacts")
    output.mkdir()
    request = msgspec.structs.replace(request, file=reference, output_dir=str(output) if request.output_dir else "")
    return build_request(request)


def declared_pipelines(file: Path) -> tuple[str, ...]:
    """Pipelines that the file seems to declare, as entries to choose from; nothing is run. Raises NotUsable."""
    if file.suffix == ".py":
        return tuple(match[1].decode() for match in DECLARATION.finditer(_python(file)))
    with _opened(file) as archive:
        return tuple(
            f"{member.filename.removesuffix('.py').replace('/', '.')}:{match[1].decode()}"
            for member in _looked_into(archive)
            for match in DECLARATION.finditer(archive.read(member))
        )


def _parameters(arguments: Sequence[str]) -> dict[str, str]:
    """Job parameters of a program's arguments. Raises NotUsable for those that are none."""
    found: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        name, sign, value = argument.removeprefix("--").partition("=")
        if not sign and argument.startswith("--"):
            sign, value = "=", next(rest, "")
            if name == "param":
                name, sign, value = value.partition("=")
        if not sign or not name:
            raise NotUsable(f"the program argument {argument!r} is no job parameter: write name=value")
        if name in found:
            raise NotUsable(f"the job parameter {name} is given twice")
        found[name] = value
    return found


def _python(file: Path) -> bytes:
    content = file.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise NotUsable(f"{file.name} is no Python file: it is not UTF-8 text") from None
    if not text.strip() or "\0" in text:
        raise NotUsable(f"{file.name} is no Python file: it is empty, or has bytes that no text has")
    return content


def _reference(file: Path, entry: str, content: Path) -> str:
    """`FILE:NAME` for the loader; archives are unpacked into `content`."""
    if file.suffix == ".py":
        is_module = entry in ("", file.name) or (entry == file.stem and entry not in declared_pipelines(file))
        return str(file) if is_module else f"{file}:{entry.rpartition(':')[2]}"
    with _opened(file) as archive:
        archive.extractall(content)  # drops `..` and absolute names by itself, and makes no links
    place, _, name = (entry or _only_entry(file)).partition(":")
    relative = place if place.endswith(".py") else f"{place.replace('.', '/')}.py"
    found = content / relative
    if content.resolve() not in found.resolve().parents or not found.is_file():
        raise NotUsable(f"{file.name} has no {relative}: name its module as MODULE or MODULE:NAME")
    return f"{found}:{name}" if name else str(found)


def _only_entry(file: Path) -> str:
    found = declared_pipelines(file)
    if len(found) == 1:
        return found[0]
    shown = f"choose one of {', '.join(found)}" if found else "none is seen in it"
    raise NotUsable(f"{file.name} does not say which pipeline is meant: {shown}, as MODULE or MODULE:NAME")


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[zipfile.ZipFile]:
    """Raises NotUsable for what is no zip, is damaged, or has too much in it, also from within the block."""
    if file.suffix not in UPLOAD_ENDINGS:
        raise NotUsable(f"{file.name}: its name must end in one of {', '.join(UPLOAD_ENDINGS)}")
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            if len(members) > MEMBERS_MAX or sum(member.file_size for member in members) > UNPACKED_BYTES_MAX:
                limit = f"{MEMBERS_MAX:,} members, {UNPACKED_BYTES_MAX >> 30} GiB"
                raise NotUsable(f"{file.name} is too large unpacked (at most {limit})")
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, UnicodeError) as error:
        raise NotUsable(f"{file.name} can't be unpacked: {error}") from None


def _looked_into(archive: zipfile.ZipFile) -> Iterator[zipfile.ZipInfo]:
    """Python files of a size that people write."""
    names = (
        each for each in archive.infolist() if each.filename.endswith(".py") and each.file_size <= SOURCE_BYTES_MAX
    )
    return itertools.islice(names, SOURCES_MAX)
