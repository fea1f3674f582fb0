"""Which files one version of one state store consists of. Pure: names in, names out.

Both built-in stores write a file of changes for each version (`.delta`, `.changelog`) and now and then a whole one
(`.snapshot`, `.zip`); RocksDB without changelog writes a whole one each time. A version is the newest whole file up to it,
and all changes since. State checkpoint format 2 has an id in each name, since a batch that was tried twice leaves two files
of one version; which of them counts is said by the commit of the batch, and for earlier versions by the lineage in the
changelog.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping

Lineage = tuple[tuple[int, str], ...]
LineageOf = Callable[[str], Lineage | None]
"""The lineage in a changelog, by its path; None when it can't be told."""

CHECKSUM_SUFFIX = ".crc"
SNAPSHOT_OF_ROCKSDB = ".zip"
WHOLE = (SNAPSHOT_OF_ROCKSDB, ".snapshot")
CHANGES = (".changelog", ".delta")
_NAME = re.compile(r"(\d+)(?:_([^.]+))?\.(?:zip|snapshot|changelog|delta)(?:\.crc)?")


class Gone(Exception):
    """A file that is needed is not listed, or was when it was listed."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def version_files(names: Collection[str], version: int, unique_id: str, lineage_of: LineageOf) -> tuple[str, ...]:
    """Of the `names` in the directory of a store, those that `version` consists of; `unique_id` with format 2 only.

    `lineage_of` is asked by a name. Raises Gone.
    """
    present = frozenset(names)
    if unique_id:
        chosen = _identified(present, version, unique_id, lineage_of)
    else:
        chosen = _chain(present, ((each, "") for each in range(version, 0, -1)))
    return tuple(name for each in chosen for name in (each, each + CHECKSUM_SUFFIX) if name in present)


def _identified(present: frozenset[str], version: int, unique_id: str, lineage_of: LineageOf) -> list[str]:
    changes = _found(present, version, unique_id, CHANGES)
    if _found(present, version, unique_id, WHOLE) or not changes:
        return _chain(present, [(version, unique_id)])
    before = lineage_of(changes)
    if before is None:
        # Which of several files of an earlier version counts can't be told, so all of them are taken.
        return sorted(name for name in present if _version(name) <= version and not name.endswith(CHECKSUM_SUFFIX))
    return _chain(present, [(version, unique_id), *reversed(before)])


def _chain(present: frozenset[str], newest_first: Iterable[tuple[int, str]]) -> list[str]:
    """From the version that is wanted back to the first whole file; or to version 1, before which there is nothing."""
    chosen: list[str] = []
    last = 0
    for version, unique_id in newest_first:
        last = version
        whole = _found(present, version, unique_id, WHOLE)
        if whole:
            return [whole, *reversed(chosen)]
        changes = _found(present, version, unique_id, CHANGES)
        if not changes:
            raise Gone(f"{_stem(version, unique_id)}.*")
        chosen.append(changes)
    if last != 1:
        raise Gone(f"the snapshot before {chosen[-1] if chosen else last}")
    return list(reversed(chosen))


def _found(present: frozenset[str], version: int, unique_id: str, suffixes: Iterable[str]) -> str:
    stem = _stem(version, unique_id)
    return next((stem + suffix for suffix in suffixes if stem + suffix in present), "")


def _stem(version: int, unique_id: str) -> str:
    return f"{version}_{unique_id}" if unique_id else str(version)


def _version(name: str) -> int:
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else _NOT_A_VERSION


_NOT_A_VERSION = 1 << 63


def named_files(metadata: str, read: Callable[[str], Mapping[str, object]]) -> dict[str, int]:
    """What the file `metadata` in a RocksDB snapshot says it consists of besides itself: sizes in bytes, by paths below the
    directory of the store. `read` parses JSON."""
    _, _, text = metadata.partition("\n")
    value = read(text)
    named: dict[str, int] = {}
    for key, field, directory in (("sstFiles", "dfsSstFileName", "SSTs"), ("logFiles", "dfsLogFileName", "logs")):
        files = value.get(key) or ()
        assert isinstance(files, (list, tuple)), "a list of files"
        named.update({f"{directory}/{file[field]}": int(file["sizeBytes"]) for file in files})
    return named
