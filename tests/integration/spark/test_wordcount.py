"""The word count example gives what plain Python gives, for any names and any bytes."""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.connectmode import VARIABLE
from tests.integration.spark import count_in_spark
from tests.integration.spark.inprocess import InProcess
from tests.sparkjvms import SHORT_LIVED

pytestmark = pytest.mark.spark

BYTES = (
    *range(9, 14),
    0,
    28,
    31,
    32,
    32,
    65,
    66,
    0x85,
    0xA0,
    0xC3,
    0xA9,
    0xE2,
    0x82,
    0xAC,
    0xED,
    0xF0,
    0x9F,
    0x98,
    0xFF,
    0xC0,
)


def write(root: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def plain_python(path: Path) -> dict[str, int]:
    files = [path] if path.is_file() else [Path(at) / name for at, _, names in os.walk(path) for name in names]
    words = (word for file in files if file.is_file() for word in file.read_bytes().split())
    return dict(Counter(word.decode("utf-8", "replace") for word in words))


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Inputs that Spark's own reader reads exactly, and inputs that it does not."""
    base = tmp_path_factory.mktemp("word count [1]")
    chance = random.Random(1)
    plain = {
        "a.txt": b" a b\x0bc\x0cd\x1ce\r\nf\rg\n\n a", "sub {1}/\xc3\xa9*?.txt".encode("latin-1").decode(): "é \u00a0x\u2028y \x85\n".encode(),
        "k=v/p q.txt": b"a", "empty.txt": b"", "no end.md": b"last", "back\\slash": b"a", "per%20cent #.txt": b"a",
    }  # fmt: skip
    hidden = {"_SUCCESS": b"a b", ".hidden": b"a", "_d/x": b"a", "d/.e/f/g": b"a", "x._COPYING_": b"a", "_a=b": b"a"}
    odd = {"co:lon": b"a b", "z.gz": b"not packed", "bom": b"\xef\xbb\xbfa b", "long": b"word " * 100_000}
    garbage = {f"f{index}": bytes(chance.choices(BYTES, k=2_000)) for index in range(8)}
    roots = [
        write(base / "plain", plain),
        write(base / "hidden", plain | hidden),
        write(base / "odd", plain | odd | hidden),
        write(base / "garbage", garbage),
        write(base / "hidden garbage", garbage | {"_h": b"a"}),
        write(base / ".below hidden", plain) / "a.txt",
        base / "hidden" / "_SUCCESS",
        base / "plain" / "sub {1}" / "é*?.txt",
    ]
    (base / "nothing").mkdir()
    linked = write(base / "linked", {"a": b"a"})
    (linked / "again").symlink_to(base / "plain")
    (linked / "broken").symlink_to(base / "absent")
    (linked / "file").symlink_to(base / "plain" / "a.txt")
    return [*roots, base / "nothing", linked]


def test_counts_are_those_of_plain_python(local: InProcess, trees: list[Path]) -> None:
    for tree in trees:
        assert count_in_spark.counted(local.spark, tree) == plain_python(tree), tree


def test_so_they_are_without_spark_connect(trees: list[Path]) -> None:
    command = [sys.executable, str(count_in_spark.__file__), *map(os.fspath, trees)]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    environment["JDK_JAVA_OPTIONS"] = SHORT_LIVED
    environment.pop(VARIABLE, None)
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-4_000:]
    found = json.loads(done.stdout.splitlines()[-1])
    for tree, counts in zip(trees, found, strict=True):
        assert counts == plain_python(tree), tree
