"""The list of functions that look beyond a row is Spark's own."""

import os
import subprocess
import sys

import pytest

from firesteel.adapters.spark.operators import AGGREGATES

pytestmark = pytest.mark.spark

SCRIPT = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
find = spark._jvm.java.lang.Class.forName
aggregate = find("org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction")
infos = spark._jvm.org.apache.spark.sql.api.python.PythonSQLUtils.listBuiltinFunctionInfos()
for info in infos:
    if info.getGroup() == "agg_funcs" or aggregate.isAssignableFrom(find(info.getClassName())):
        print(info.getName())
"""


def test_every_aggregate_of_this_spark_is_known() -> None:
    environment = {key: value for key, value in os.environ.items() if key != "SPARK_CONNECT_MODE_ENABLED"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, timeout=120, check=True
    )
    names = set(done.stdout.split())
    assert len(names) > 80
    assert names <= AGGREGATES, sorted(names - AGGREGATES)
