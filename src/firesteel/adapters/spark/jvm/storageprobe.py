"""Whether Spark, as it is configured, can write to a storage: asked of one of its own, with its jars and packages."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from firesteel.adapters.spark.jvm import launch
from firesteel.adapters.storage.s3settings import spark_settings
from firesteel.adapters.storage.schemes import missing_jars, missing_scheme
from firesteel.runtime.directories import write_private

LIMIT_S = 180.0
"""For a Spark on a busy machine, and packages that are fetched the first time."""
HEAP_MIB = 512
_PROGRAM = """
import sys
from pyspark.sql import SparkSession

SparkSession.builder.getOrCreate().range(1).coalesce(1).write.parquet(sys.argv[1])
"""
_IMPATIENT = {
    "spark.hadoop.fs.s3a.attempts.maximum": "1",
    "spark.hadoop.fs.s3a.retry.limit": "1",
    "spark.hadoop.fs.s3a.connection.establish.timeout": "5s",
    "spark.hadoop.fs.s3a.connection.timeout": "5s",
}


def spark_problem(directory: str, spark: Mapping[str, str], hadoop: Mapping[str, str]) -> str:
    """Have it write there; why it could not, or nothing. `spark`: the user's settings for it, `hadoop`: those of storages.

    Blocking, for as long as Spark takes to start. Raises TaskFailedError when there is none here.
    """
    installation = launch.find_installation()
    with tempfile.TemporaryDirectory(prefix="firesteel-probe-") as name:
        own = Path(name)
        (own / "program.py").write_text(_PROGRAM)
        (own / launch.LOG_CONFIGURATION_NAME).write_text(launch.LOG_CONFIGURATION)
        settings = launch.spark_configuration(own, 1, {**spark_settings(hadoop), **_IMPATIENT, **spark})
        text = "".join(f"{key}={value}\n" for key, value in {**settings, "spark.master": "local[1]"}.items())
        write_private(own / "spark.properties", text)  # with secrets, which no command line shows
        paths = (*launch.configuration_directories(), launch.base_class_path(installation))
        command = [installation.java, "-cp", ":".join(paths), *launch.jvm_flags(HEAP_MIB)]
        command += [f"-Dlog4j2.configurationFile={own / launch.LOG_CONFIGURATION_NAME}", launch.SUBMIT_CLASS]
        command += ["--properties-file", str(own / "spark.properties"), str(own / "program.py"), directory]
        environment = {name: text for name, text in os.environ.items() if name != "SPARK_CONNECT_MODE_ENABLED"}
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=LIMIT_S,
                check=False,
                env={**environment, "PYSPARK_PYTHON": sys.executable},
                cwd=own,
            )
        except subprocess.TimeoutExpired:
            return f"{directory}: Spark has not written there within {LIMIT_S:.0f} s: is the endpoint right?"
    return _told(directory, done.stdout) if done.returncode else ""


def _told(directory: str, printed: str) -> str:
    if scheme := missing_scheme(printed):
        return missing_jars(scheme, directory)
    lines = [line.strip() for line in printed.splitlines()]
    causes = [line for line in lines if "Exception: " in line or "Error: " in line]
    return f"{directory}: Spark could not write there: {(causes or lines or ['it said nothing'])[-1][:500]}"
