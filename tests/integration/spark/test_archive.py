"""The class-data archive, with a stand-in for Java: made once, by rename, and never in the way."""

import asyncio
import os
from pathlib import Path

import pytest

from firesteel.adapters.spark.jvm.archive import ClassDataArchive, archive_file

JAVA = """#!/bin/sh
for option; do
  case $option in
    -XX:SharedClassListFile=*) classes=${option#*=} ;;
    -XX:SharedArchiveFile=*) archive=${option#*=} ;;
  esac
done
cp "$classes" "$archive"
exit STATUS
"""


def fake_java(directory: Path, status: int = 0) -> str:
    path = directory / "java"
    path.write_text(JAVA.replace("STATUS", str(status)))
    path.chmod(0o755)
    return str(path)


def noted_classes(flags: tuple[str, ...]) -> Path:
    (option,) = flags
    name, _, path = option.partition("=")
    assert name == "-XX:DumpLoadedClassList"
    return Path(path)


async def written(archive: ClassDataArchive, directory: Path) -> None:
    """Write, and wait for the process that nobody waits for."""
    archive.started()
    await archive.write()
    async with asyncio.timeout(300):
        while any(path.suffix != ".jsa" for path in directory.iterdir()):
            await asyncio.sleep(0.01)


def test_the_first_jvm_notes_classes_and_the_next_uses_the_archive(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    archive = ClassDataArchive(cache / "spark-key.jsa", [fake_java(tmp_path)])
    noted_classes(archive.flags()).write_text("java/lang/Object\njava/lang/Str")  # killed within a line
    asyncio.run(written(archive, cache))
    (file,) = cache.iterdir()
    assert file.read_text() == "java/lang/Object\n"
    assert archive.flags()[0] == f"-XX:SharedArchiveFile={file}"
    archive.distrust()
    assert archive.flags() == ()
    assert not list(cache.iterdir())


def test_a_dump_that_fails_leaves_nothing(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    archive = ClassDataArchive(cache / "spark-key.jsa", [fake_java(tmp_path, status=1)])
    noted_classes(archive.flags()).write_text("java/lang/Object\n")
    asyncio.run(written(archive, cache))
    assert not list(cache.iterdir())


def test_no_place_for_a_cache_is_no_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    assert ClassDataArchive(tmp_path / "file" / "cache" / "spark-key.jsa", ["java"]).flags() == ()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert ClassDataArchive(tmp_path / "cache" / "spark-key.jsa", ["java"]).flags() == ()


def test_what_the_jvm_would_refuse_has_another_archive(tmp_path: Path) -> None:
    java, jar = fake_java(tmp_path), tmp_path / "jars" / "a.jar"
    jar.parent.mkdir()
    jar.write_bytes(b"a")
    class_path = f"{jar.parent}/*:{tmp_path}/none.jar"
    first = archive_file(java, class_path, ["flag"])
    assert first == archive_file(java, class_path, ["flag"])
    other_flags = archive_file(java, class_path, ["other"])
    os.utime(jar, (1, 1))  # as another installation of the same jar has
    assert len({first, other_flags, archive_file(java, class_path, ["flag"])}) == 3
