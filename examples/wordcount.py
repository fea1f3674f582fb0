"""Words of a file, or of every file in a directory tree, with their counts.

    firesteel run examples/wordcount.py --param input=DIR_OR_FILE --param output=RESULT_DIR

The result is exactly that of this plain Python, as Parquet with the columns word and count:

    Counter(word.decode("utf-8", "replace") for file in tree for word in file.read_bytes().split())

that is: words are what ASCII white space separates (not a no-break space, not 0x1c to 0x1f), every
regular file counts whatever its name is, links to directories are not followed, and bytes that
are no UTF-8 become U+FFFD.
"""

import codecs
import os
from collections.abc import Iterator

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import firesteel as fs

pipeline = fs.Pipeline("wordcount")


@pipeline.source
def lines(spark: SparkSession, input: str) -> DataFrame:
    path = input if is_remote(input) else local_path(input)
    files = list(tree(path))
    if all(spark_reads_exactly(file) for file in files):
        return spark.read.option("recursiveFileLookup", True).text(escape_glob(path))
    return read_bytes(spark, [file for file in files if os.path.isfile(file)])


@pipeline.transform
def words(lines: DataFrame) -> DataFrame:
    # Java's \s is ASCII white space: the very set bytes.split() splits on.
    return lines.select(F.explode(F.split(F.make_valid_utf8("value"), r"\s+")).alias("word")).where("word <> ''")


@pipeline.transform
def counts(words: DataFrame) -> DataFrame:
    return words.groupBy("word").count()


@pipeline.sink
def result(counts: DataFrame, output: str) -> None:
    fs.write_parquet(counts, output, mode="overwrite")


def is_remote(path: str) -> bool:
    return "://" in path and not path.startswith("file://")


def local_path(path: str) -> str:
    """The absolute path; a relative one starts where `firesteel` was started."""
    return os.path.abspath(os.path.join(os.environ.get("FIRESTEEL_CLIENT_DIR", ""), path.removeprefix("file://")))


def tree(path: str) -> Iterator[str]:
    """The files at or below a local path, with the directories that need a second look; of a URI only itself."""

    def fail(error: OSError) -> None:
        raise error

    if not os.path.isdir(path):
        yield path
        return
    for parent, directories, names in os.walk(path, onerror=fail):
        links = (name for name in directories if os.path.islink(os.path.join(parent, name)))
        hidden = (name for name in directories if name.startswith((".", "_")))
        yield from (os.path.join(parent, name) for name in (*names, *links, *hidden))


def spark_reads_exactly(path: str) -> bool:
    """Whether Spark's text reader sees the file, and reads the bytes that are in it.

    It skips names that start with "_" or ".", can't open names with a colon, follows links to
    directories, unpacks compressed files and drops a byte order mark.
    """
    name = os.path.basename(path)
    if not os.path.lexists(path):
        return True  # A URI, which Spark reads by its own rules, or nothing, and Spark says so.
    if name.startswith(("_", ".")) or ":" in name or name.endswith("._COPYING_") or not os.path.isfile(path):
        return False
    if name.endswith((".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate", ".passthrough")):
        return False
    with open(path, "rb") as file:
        return file.read(3) != codecs.BOM_UTF8


def escape_glob(path: str) -> str:
    """Spark takes a path for a pattern."""
    return "".join(f"\\{character}" if character in "{}[]*?\\" else character for character in path)


def read_bytes(spark: SparkSession, files: list[str]) -> DataFrame:
    """The files' text, read by Python on the executors, cut after line ends."""

    def read(batches):  # type: ignore[no-untyped-def]
        import pyarrow

        for batch in batches:
            for path in batch.column(0).to_pylist():
                with open(path, "rb") as file:
                    while some_lines := file.readlines(1 << 16):
                        text = b"".join(some_lines).decode("utf-8", "replace")
                        yield pyarrow.RecordBatch.from_pydict({"value": [text]})

    paths = spark.createDataFrame([(os.path.abspath(file),) for file in files], "path string")
    return paths.repartition(max(1, min(len(files), 32))).mapInArrow(read, "value string")
