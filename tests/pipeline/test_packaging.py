"""What travels with a job, and that equal files make equal bytes."""

import os
import sys
import zipfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import cloudpickle
import pytest

from firesteel.model.jobgraph import InvalidJobGraph
from firesteel.pipeline import packaging
from firesteel.pipeline.packaging import module_root, pack_directory, package_files, pickle_functions, store_artifact


def write(root: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root / "etl.py"


def names(root: Path, pipeline_file: Path, **options) -> list[str]:
    return [file.name for file in package_files(root, pipeline_file, limit_mib=1, **options)]


def test_gitignore_and_caches_are_left_out(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        {
            "etl.py": "", "lib/a.py": "", "lib/data.csv": "", "lib/.gitignore": "*.csv\n!keep.csv\n", "lib/keep.csv": "",
            ".gitignore": "/out\n*.log\n", "out/part.parquet": "", "x.log": "", "lib/out/kept.py": "",
            "__pycache__/etl.pyc": "", ".git/config": "", ".venv/lib/x.py": "", "env/pyvenv.cfg": "", "env/x.py": "",
            "cl/processes.json": "", "cl/log/a": "", "w1/worker.lock": "", "w1/artifacts/old.py": "",
            "work/_firesteel_storage/identity": "", "work/blobs/1": "", "sp/s-1/savepoint.json": "{}", "sp/s-1/q/1.zip": "",
            "chk/1/metadata": "{}", "chk/1/offsets/0": "", "chk/1/commits/0": "",
            ".env": "PASSWORD=1", "wörter bank.txt": "",
        },
    )  # fmt: skip
    expected = [
        ".gitignore",
        "etl.py",
        "lib/.gitignore",
        "lib/a.py",
        "lib/keep.csv",
        "lib/out/kept.py",
        "wörter bank.txt",
    ]
    assert names(tmp_path, file) == expected


def test_gitignore_above_counts_up_to_the_repository(tmp_path: Path) -> None:
    write(tmp_path, {".gitignore": "*.py\n", "repo/.git/config": "", "repo/.gitignore": "*.tmp\n"})
    file = write(tmp_path / "repo/jobs", {"etl.py": "", "a.tmp": ""})
    assert names(file.parent, file) == ["etl.py"]


def test_the_pipeline_itself_is_never_ignored(tmp_path: Path) -> None:
    file = write(tmp_path, {"etl.py": "", ".gitignore": "*.py\n", "other.py": ""})
    assert names(tmp_path, file) == [".gitignore", "etl.py"]


def test_data_that_a_parameter_names_is_left_out(tmp_path: Path) -> None:
    file = write(
        tmp_path, {"etl.py": "", "input/a.txt": "", "big.bin": b"x" * packaging.DATA_FILE_BYTES, "conf.json": ""}
    )
    data = [tmp_path / "input", tmp_path / "big.bin", tmp_path / "conf.json", tmp_path, tmp_path / "absent"]
    assert names(tmp_path, file, data=data) == ["conf.json", "etl.py"]


def test_links_and_special_files(tmp_path: Path) -> None:
    file = write(tmp_path, {"etl.py": "x = 1\n"})
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "alias.py").symlink_to(file)
    (tmp_path / "broken.py").symlink_to(tmp_path / "absent")
    os.mkfifo(tmp_path / "pipe")
    assert names(tmp_path, file) == ["alias.py", "etl.py"]


def test_too_large_names_the_largest_files(tmp_path: Path) -> None:
    file = write(tmp_path, {"etl.py": "", "data/huge.bin": b"x" * 1_500_000, "data/small.bin": b"x" * 300_000})
    with pytest.raises(InvalidJobGraph) as caught:
        names(tmp_path, file)
    text = str(caught.value)
    assert "has 1.7 MiB, and pipeline.package.size-limit is 1 MiB" in text
    assert text.index("data/huge.bin (1.4 MiB)") < text.index("data/small.bin (0.3 MiB)")


def test_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaging, "MAX_FILES", 3)
    file = write(tmp_path, {"etl.py": "", **{f"d/f{index}": "" for index in range(4)}})
    with pytest.raises(InvalidJobGraph, match="more than 3 files, most of them below d/: "):
        names(tmp_path, file)


def test_equal_files_make_equal_bytes(tmp_path: Path) -> None:
    packages = []
    for name, time in (("one", 1_000_000_000), ("two", 1_700_000_000)):
        root = tmp_path / name
        file = write(root, {"b/x.py": "x", "etl.py": "e", "a.py": "a"})
        for path in root.rglob("*"):
            os.utime(path, (time, time))
        packages.append(pack_directory(root, package_files(root, file, limit_mib=1), {"alias.py": file}))
    assert packages[0] == packages[1]
    archive = zipfile.ZipFile(BytesIO(packages[0]))
    assert archive.namelist() == ["b/", "a.py", "alias.py", "b/x.py", "etl.py"]
    assert archive.read("alias.py") == b"e"


def test_module_root_of_a_package(tmp_path: Path) -> None:
    write(tmp_path, {"src/pkg/__init__.py": "", "src/pkg/jobs/__init__.py": "", "src/pkg/jobs/etl.py": ""})
    assert module_root(tmp_path / "src/pkg/jobs/etl.py") == (tmp_path / "src", "pkg.jobs.etl")
    assert module_root(tmp_path / "src/etl.py") == (tmp_path / "src", "etl")


def test_a_file_that_goes_while_it_is_packed_is_left_out(tmp_path: Path) -> None:
    file, gone = tmp_path / "etl.py", tmp_path / "tmp" / "gone"
    gone.parent.mkdir()
    for each in (file, gone):
        each.write_text("pass")
    files = package_files(tmp_path, file, limit_mib=1)
    gone.unlink()
    with zipfile.ZipFile(BytesIO(pack_directory(tmp_path, files, {}))) as archive:
        assert archive.namelist() == ["etl.py"]


def test_functions_are_pickled_by_several_threads_at_once() -> None:
    """What cloudpickle takes by value is a setting of the process: nobody loses his while another ends."""

    def build(_: int) -> bytes:
        return pickle_functions({"here": test_functions_are_pickled_by_several_threads_at_once}, [__name__])

    with ThreadPoolExecutor(8) as threads:
        pickles = list(threads.map(build, range(64)))
    assert all(b"_make_function" in each for each in pickles), "by value, not by a name that its reader can't import"
    assert __name__ not in cloudpickle.list_registry_pickle_by_value()


def test_what_the_user_takes_by_value_stays_so() -> None:
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    try:
        pickle_functions({"here": test_what_the_user_takes_by_value_stays_so}, [__name__])
        assert __name__ in cloudpickle.list_registry_pickle_by_value()
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def test_an_artifact_is_whole_while_other_builds_store_it_again(tmp_path: Path) -> None:
    content = bytes(1 << 20)
    _, path = store_artifact(tmp_path, "code.zip", "code", content)
    with ThreadPoolExecutor(1) as threads:
        others = threads.submit(lambda: [store_artifact(tmp_path, "code.zip", "code", content) for _ in range(200)])
        while not others.done():
            assert path.stat().st_size == len(content)
        others.result()
    assert os.listdir(tmp_path) == [path.name]
