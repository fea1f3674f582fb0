"""What a cluster takes over from the machine at its start: looked up anew by every command that would use one."""

import os
import shutil
import site
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import firesteel


def machine_facts() -> dict[str, str]:
    """Texts by name; equal as long as processes that were started then are like those that would be started now."""
    return {
        "directory": _file(os.getcwd(), with_time=False),
        "firesteel": f"{_version('firesteel')} {_newest_source()}",
        "PySpark": _version("pyspark"),
        "Python": f"{sys.version} {sys.executable} {sys.prefix}",
        "installed packages": " ".join(_file(each) for each in _package_directories()),
        "Java": _file(_java()),
        "configuration of Spark or Hadoop": " ".join(_configuration_files()),
        "umask": _umask(),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _file(path: str, *, with_time: bool = True) -> str:
    """Tells the file from another of its name, and `with_time` from itself before it was changed."""
    try:
        found = os.stat(path)
    except OSError:
        return f"{path} is not there"
    changed = found.st_mtime_ns if with_time else 0
    return f"{os.path.realpath(path)} {found.st_dev} {found.st_ino} {changed}"


def _package_directories() -> list[str]:
    """An installation, an upgrade or a removal changes the directory itself."""
    found = [*site.getsitepackages(), site.getusersitepackages()]
    found += [each for each in sys.path if os.path.basename(each) in ("site-packages", "dist-packages")]
    return list(dict.fromkeys(found))


def _newest_source() -> int:
    """Time of the last change of firesteel itself, for those who work on it."""
    newest = 0
    for directory, _, names in os.walk(Path(firesteel.__file__).parent):
        if not directory.endswith("__pycache__"):
            newest = max(newest, *(os.stat(os.path.join(directory, name)).st_mtime_ns for name in names), 0)
    return newest


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java") or ""


def _configuration_files() -> list[str]:
    directories = filter(None, map(os.environ.get, ("SPARK_CONF_DIR", "HADOOP_CONF_DIR")))
    return [_file(str(file)) for each in directories for file in sorted(Path(each).glob("*"))]


def _umask() -> str:
    """It can't be read without being set."""
    mask = os.umask(0o077)
    os.umask(mask)
    return oct(mask)
