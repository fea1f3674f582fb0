"""Small queries that have a JVM load, compile and generate what most queries need, before there is a job."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import functions as F

from firesteel.adapters.spark import calls
from firesteel.adapters.spark.session.attempt import AttemptSession

TAG = "firesteel-warm-up"
FILES, LINES, WORDS_A_LINE = 4, 200, 8


def warm_up(payload: bytes) -> bytes:
    """Run one round, in a session of its own as each attempt has one. JSON of a WarmUp in, nothing out."""
    order = msgspec.json.decode(payload, type=calls.WarmUp)
    folder = Path(tempfile.mkdtemp(dir=order.directory, prefix="warm-up-"))
    session: Any = AttemptSession(lambda: order.endpoint, order.session, TAG, {}).get()
    try:
        _run(session, folder)
        session.client.close()  # Spark has heard of all that was received: nothing runs when the worker closes the session
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return b""


def _run(spark: Any, folder: Path) -> None:
    """The usual paths: text and Parquet read, rows shuffled, Parquet written, a function of Python's.

    Each round has files of its own: Spark has less to do for a query that it sees again.
    """
    texts = folder / "texts"
    texts.mkdir(parents=True)
    for number in range(FILES):
        lines = (" ".join(f"w{(line * number + word) % 97}" for word in range(WORDS_A_LINE)) for line in range(LINES))
        (texts / f"{number}.txt").write_text("\n".join(lines))
    words = spark.read.text(str(texts)).select(F.explode(F.split("value", r"\s+")).alias("word"))
    words.where("word <> ''").groupBy("word").count().write.parquet(str(folder / "counts"))
    counts = spark.read.parquet(str(folder / "counts"))
    shown = F.udf(lambda word: f"<{word}>", "string")
    joined = counts.join(counts.select("word", F.length("word").alias("letters")), "word")
    joined.select(shown("word").alias("word"), "count", "letters").orderBy("word").write.parquet(str(folder / "shown"))
    spark.read.parquet(str(folder / "shown")).agg(F.sum("count"), F.max("letters")).collect()
