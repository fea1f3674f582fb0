"""What is committed means the same on every machine."""

import re
from pathlib import Path

from tests.tidy.source import relative, tracked_files

ROOT = Path(__file__).resolve().parents[2]
MACHINE_PATHS = (f"{ROOT}/", f"{Path.home()}/", "/home/", "/Users/", "C:\\\\Users")
"""Where this checkout and this user's files lie, and where those of others do."""
REGISTRIES = ("--index-url", "--extra-index-url", "--find-links", ".whl#", "/simple/", "/-/")
"""Marks of an address that packages are downloaded from."""
ITSELF = Path(__file__).resolve()
SIZE_BYTES_MAX = 1_000_000


def occurrences(words: tuple[str, ...]) -> list[str]:
    """`file:line: word` for each of the words in a tracked text file."""
    pattern = re.compile("|".join(map(re.escape, words)))
    found = []
    for file in tracked_files():
        if file == ITSELF:
            continue
        for number, line in enumerate(text_of(file).splitlines(), start=1):
            found += [f"{relative(file)}:{number}: {match[0]}" for match in pattern.finditer(line)]
    return found


def text_of(file: Path) -> str:
    """The file's text, or nothing when it is not text."""
    try:
        return file.read_text()
    except UnicodeDecodeError:
        return ""


def test_no_path_of_one_machine() -> None:
    assert not (found := occurrences(MACHINE_PATHS)), found


def test_no_address_of_a_registry() -> None:
    assert not (found := occurrences(REGISTRIES)), found


def test_no_large_file() -> None:
    large = {relative(file): size for file in tracked_files() if (size := file.stat().st_size) > SIZE_BYTES_MAX}
    assert not large, f"generate it, or keep it elsewhere: {large}"
