"""Rows of outputs that count: by the records of fs.stream_files, and by the log of Spark's own sink."""

import gzip
import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.orc
import pyarrow.parquet
import pytest

from firesteel.adapters.storage.batchfiles import BatchFiles
from firesteel.client.outputrows import NotReadable, rows_of
from firesteel.model.streams import SPARK_FILES, STREAM_FILES, StreamOutput

MOST = 1 << 60


def write(path: Path, *values: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table({"v": list(values)}), path)


def streamed(root: Path, *batches: dict[str, list[int]]) -> StreamOutput:
    output = BatchFiles.claim(root)
    for number, files in enumerate(batches):
        staging = output.begin(number, "query")
        staging.mkdir()
        for name, values in files.items():
            write(staging / name, *values)
        output.commit(number, staging)
    return StreamOutput(kind=STREAM_FILES, place=str(root), format="parquet")


def read(output: StreamOutput, after: int = -1, up_to: int = MOST, savepoint: str = "") -> list[Any]:
    return [(batch, *row.values()) for batch, row in rows_of(output, "result", after, up_to, savepoint)]


def test_batches_of_stream_files(tmp_path: Path) -> None:
    output = streamed(tmp_path, {"a.parquet": [1, 2]}, {"day=1/b.parquet": [3]}, {"c.parquet": [4]})
    write(tmp_path / "stray.parquet", 9)
    assert read(output) == [(0, 1), (0, 2), (1, 3, "1"), (2, 4)]
    assert read(output, after=0, up_to=1) == [(1, 3, "1")]


def logged(root: Path, name: str, *files: str) -> None:
    log = root / "_spark_metadata"
    log.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"path": f"file://{root}/{file}", "action": "add"}) for file in files]
    (log / name).write_text("\n".join(["v1", *lines]))


def test_files_that_sparks_log_names(tmp_path: Path) -> None:
    for place, name in enumerate(("a", "b b", "c")):
        write(tmp_path / f"{name}.parquet", place)
    logged(tmp_path, "0", "a.parquet")
    logged(tmp_path, "1.compact", "a.parquet", "b%20b.parquet")
    logged(tmp_path, "2", "c.parquet")
    output = StreamOutput(kind=SPARK_FILES, place=str(tmp_path), format="parquet")
    assert read(output, up_to=2) == [(1, 0), (1, 1), (2, 2)]
    assert read(output, up_to=1) == [(1, 0), (1, 1)]
    assert read(output, up_to=0) == [(0, 0)]
    (tmp_path / "_spark_metadata/0").unlink()
    with pytest.raises(NotReadable, match="compacted beyond that"):
        read(output, up_to=0)
    with pytest.raises(NotReadable, match="in the savepoint of the branch"):
        read(output, up_to=2, savepoint=str(tmp_path / "gone"))


@pytest.mark.parametrize(
    ("form", "options", "text", "rows"),
    [
        ("json", {}, '{"k": "a", "v": 1}\n', [(0, "a", 1)]),
        ("text", {}, "a b\nc\n", [(0, "a b"), (0, "c")]),
        ("csv", {}, 'a,"1,5"\n', [(0, "a", "1,5")]),
        ("csv", {"header": "true", "sep": ";"}, "k;v\na;1\n", [(0, "a", "1")]),
        ("csv", {}, 'a",b,\n"1400\\",b",""\n', [(0, 'a"', "b", None), (0, '1400",b', "")]),
        ("json", {"lineSep": "|"}, '{"v": 1}|{"v": 2}', [(0, 1), (0, 2)]),
        ("json", {}, '{"v": 0.1}\n{"v": 0.10000000000000000001}\n', [(0, 0.1), (0, Decimal("0.10000000000000000001"))]),
        ("csv", {}, "x" * 200_000 + "\n", [(0, "x" * 200_000)]),
    ],
)
def test_formats_of_lines(tmp_path: Path, form: str, options: dict[str, str], text: str, rows: list[Any]) -> None:
    for name, data in (("a.txt", text.encode()), ("a.gz", gzip.compress(text.encode()))):
        root = tmp_path / name
        root.mkdir()
        (root / name).write_bytes(data)
        logged(root, "0", name)
        output = StreamOutput(kind=SPARK_FILES, place=str(root), format=form, options=options)
        assert read(output, up_to=0) == rows


@pytest.mark.parametrize("form", ["csv", "json", "text"])
def test_encodings(tmp_path: Path, form: str) -> None:
    (tmp_path / "a").write_bytes('{"v": "é"}\n'.encode("UTF-16"))
    logged(tmp_path, "0", "a")
    options = {"encoding": "UTF-16", "quote": ""}
    found = read(StreamOutput(kind=SPARK_FILES, place=str(tmp_path), format=form, options=options), up_to=0)
    assert found == [(0, "é" if form == "json" else '{"v": "é"}')]


@pytest.mark.parametrize(
    ("form", "name", "data", "options", "said"),
    [
        ("csv", "a", b"k,v\n1,2,3\n", {"header": "true"}, "row 1 has 3 fields, and the header 2"),
        ("csv", "a", b'"1\n', {}, "a quote is never closed"),
        ("json", "a", b'{"v": 1}|{"v": 2}\n', {}, "Extra data"),
        ("text", "a", b"\xff\n", {}, "can't decode"),
        ("text", "a", b"", {"encoding": "UTF-9"}, "unknown encoding: UTF-9"),
        ("json", "a.snappy", b"", {}, r"only Hadoop unpacks \.snappy"),
        ("json", "a.gz", b"no gzip", {}, ""),
        ("parquet", "a", b"PAR?", {}, ""),
    ],
)
def test_what_can_not_be_read_is_said(
    tmp_path: Path, form: str, name: str, data: bytes, options: dict[str, str], said: str
) -> None:
    (tmp_path / name).write_bytes(data)
    logged(tmp_path, "0", name)
    with pytest.raises(NotReadable, match=rf"{name} can't be read for the comparison: .*{said}"):
        read(StreamOutput(kind=SPARK_FILES, place=str(tmp_path), format=form, options=options), up_to=0)


FAR = [datetime.fromisoformat(each) for each in ("9999-12-31", "1582-10-04T12:00:00")]


def test_times_that_python_or_orc_has_not(tmp_path: Path) -> None:
    beyond = pyarrow.array([253_402_300_800_000_000], pyarrow.timestamp("us"))  # the year 10000
    times = pyarrow.concat_arrays([pyarrow.array(FAR, pyarrow.timestamp("us")), beyond])
    logged(tmp_path, "0", "a.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"t": times}), tmp_path / "a.parquet")
    found = read(StreamOutput(kind=SPARK_FILES, place=str(tmp_path), format="parquet"), up_to=0)
    assert [value for _, value in found] == [*FAR, "+10000-01-01T00:00:00"]

    dates = pyarrow.array([2_932_896, 2_932_897], pyarrow.date32())
    pyarrow.parquet.write_table(pyarrow.table({"d": dates}), tmp_path / "a.parquet")
    found = read(StreamOutput(kind=SPARK_FILES, place=str(tmp_path), format="parquet"), up_to=0)
    assert [value for _, value in found] == [FAR[0].date(), "+10000-01-01"]

    logged(tmp_path, "0", "a.orc")
    pyarrow.orc.write_table(pyarrow.table({"t": times}), tmp_path / "a.orc")
    with pytest.raises(NotReadable, match=r"a\.orc can't be read for the comparison: .*timestamp"):
        read(StreamOutput(kind=SPARK_FILES, place=str(tmp_path), format="orc"), up_to=0)


def test_what_can_not_be_read(tmp_path: Path) -> None:
    with pytest.raises(NotReadable, match="not to be seen from here"):
        read(StreamOutput(kind=STREAM_FILES, place=str(tmp_path / "gone"), format="parquet"))
    with pytest.raises(NotReadable, match="files of avro"):
        read(StreamOutput(kind=SPARK_FILES, place=str(tmp_path), format="avro"))
    output = streamed(tmp_path, {"a.parquet": [1]})
    next(tmp_path.glob("batch-*")).unlink()
    with pytest.raises(NotReadable, match="is gone"):
        read(output)
