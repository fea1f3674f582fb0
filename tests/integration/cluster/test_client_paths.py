"""Relative paths of a job's code: Spark looks where the client is, in whatever way it is told of them."""

from pathlib import Path

import msgspec
import pytest

from tests.integration.cluster.conftest import Do
from tests.integration.cluster.files import Files
from tests.integration.cluster.test_scripts import BUILDER, Scripts

pytestmark = pytest.mark.spark

READS = (
    "select * from csv.rin",
    "select * from csv.`rin`",
    "from csv./*c*/`rin`",
    "from `csv`.`rin`",
    "select b.* from csv.`rin` a, csv.`rin` b",
    "table csv.`rin`",
    "select * from viewed",
)
WRITES = ("report", "after", "reported", "streamed", "ckpt", "streamed again", "kept", "~/home")
PROGRAM = f"""
import os
os.mkdir("rin")
open("rin/part.csv", "w").write("here\\n")
print(spark.read.table("csv.`rin`").columns, spark.newSession().sql("table csv.rin").count())
spark.sql("create temporary view viewed using csv options (path 'rin')")
for query in {READS!r}:
    print([row[0] for row in spark.sql(query).collect()])
print(spark.sql("select 'rows from csv.`rin`' as note").head()[0])
spark.sql("insert overwrite directory 'report' using csv select 1")
spark.sql("insert overwrite directory using csv options (path 'reported') select 1")
stream = spark.readStream.schema("a string").csv("rin").writeStream.format("parquet").trigger(availableNow=True)
stream.option("checkpointLocation", "ckpt").start("streamed").awaitTermination()
spark.conf.set("spark.sql.streaming.checkpointLocation", "kept")
other = spark.readStream.schema("a string").csv("rin").writeStream.format("parquet").trigger(availableNow=True)
other.start("streamed again").awaitTermination()
spark.range(1).write.parquet("~/home")
other = spark.newSession()
for session in (spark, other):
    session.sql("RESET")
    print([row[0] for row in session.sql("select * from csv.`rin`").collect()])
spark.sql("insert overwrite directory 'after' using csv select 1")
print([name for name in {WRITES!r} if not os.path.exists(name)])
"""


def test_every_relative_path_starts_where_the_client_is(files: Files, do: Do, tmp_path: Path) -> None:
    here = tmp_path / "a place"
    here.mkdir()

    async def run() -> str:
        scripts = Scripts(files)
        built = await scripts.built("relative.py", BUILDER + PROGRAM)
        environment = msgspec.structs.replace(built.graph.environment, directory=str(here))
        graph = msgspec.structs.replace(built.graph, environment=environment)
        done = await scripts.end(await scripts.client.submit_job(graph, built.artifact_paths()))
        return done.out + done.err

    read = "['here']\n" * len(READS)
    assert do(run()) == f"['_c0'] 1\n{read}rows from csv.`rin`\n['here']\n['here']\n[]\n"
