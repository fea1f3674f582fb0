"""Environments as users pack them: an interpreter of their own, and what is installed for it."""

import importlib.util
import os
import shutil
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

LIBRARY = f"lib/python{sys.version_info.major}.{sys.version_info.minor}"


def environment(directory: Path, word: str, *, has_packages: bool = True) -> Path:
    """An environment with the package `spelled`, one module of which is compiled: it has `WORD` and `escaped(text)`.

    Its interpreter is a link to that of this process, as in what `venv-pack` makes. Without `has_packages` it lacks what
    Spark needs.
    """
    base = Path(sys._base_executable)  # type: ignore[attr-defined]
    packages = directory / LIBRARY / "site-packages"
    (packages / "spelled").mkdir(parents=True)
    (directory / "bin").mkdir()
    (directory / "bin" / "python").symlink_to(base)
    (directory / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
    compiled = importlib.util.find_spec("markupsafe._speedups")
    assert compiled is not None
    assert compiled.origin is not None
    shutil.copy(compiled.origin, packages / "spelled")
    (packages / "spelled" / "__init__.py").write_text(
        f"from spelled._speedups import _escape_inner as escaped\nWORD = {word!r}\n"
    )
    if has_packages:
        (packages / "others.pth").write_text(sysconfig.get_paths()["platlib"] + "\n")
    return directory


def tarred(directory: Path, file: Path) -> str:
    """All of a directory, as `tar -czf FILE -C DIRECTORY .` packs it."""
    with tarfile.open(file, "w:gz" if file.name.endswith("gz") else "w") as archive:
        archive.add(directory, ".")
    return os.fspath(file)


def zipped(directory: Path, file: Path) -> str:
    """All of a directory, as `zip -r` packs it: files with their permissions, links as what they lead to."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(directory.rglob("*")):
            archive.write(path, path.relative_to(directory))
    return os.fspath(file)
