"""Things that a script finds missing since its session is one of Spark Connect, and what to do instead."""

from typing import Any

from pyspark.errors import PySparkAttributeError, PySparkException

_ELSE = "run scripts that need it with spark-submit"
_WAYS_OUT = {
    "sparkContext": "use the session itself",
    "SparkContext": "use SparkSession.builder.getOrCreate()",
    "sparkContext.parallelize": "use spark.createDataFrame(...) or spark.range(...)",
    "sparkContext.range": "use spark.range(...)",
    "sparkContext.textFile": "use spark.read.text(...)",
    "sparkContext.wholeTextFiles": "use spark.read.text(..., wholetext=True)",
    "sparkContext.binaryFiles": 'use spark.read.format("binaryFile")',
    "sparkContext.broadcast": "name the value in the Python function itself, or join with functions.broadcast(...)",
    "sparkContext.accumulator": "count with an aggregation, or observe the DataFrame",
    "sparkContext.getConf": "use spark.conf",
    "sparkContext.addPyFile": "use --py-files, or spark.addArtifacts(..., pyfile=True)",
    "sparkContext.addFile": "use --files, or spark.addArtifacts(..., file=True)",
    "sparkContext.addArchive": "use --archives, or spark.addArtifacts(..., archive=True)",
    "sparkContext.setJobGroup": "use spark.addTag(...)",
    "sparkContext.setJobDescription": "use spark.addTag(...)",
    "sparkContext.cancelAllJobs": "use spark.interruptAll()",
    "sparkContext.cancelJobGroup": "use spark.interruptTag(...)",
    "sparkContext.version": "use spark.version",
    "rdd": "use DataFrame operations, df.mapInPandas(...) or df.mapInArrow(...)",
}


class ScriptContext:
    """`spark.sparkContext` of a script: it can be asked to log less, and refuses all else by name."""

    def setLogLevel(self, logLevel: str) -> None:
        """Nothing to do: what Spark logs goes to the worker's files."""

    def __getattr__(self, name: str) -> Any:
        missing = {"attr_name": f"sparkContext.{name}"}
        raise PySparkAttributeError(errorClass="JVM_ATTRIBUTE_NOT_SUPPORTED", messageParameters=missing)


def way_out(error: BaseException) -> str:
    """A sentence for an error that means that something is not there with Spark Connect; else empty."""
    if not isinstance(error, PySparkException):
        return ""
    match error.getCondition():
        case "JVM_ATTRIBUTE_NOT_SUPPORTED":
            name = (error.getMessageParameters() or {}).get("attr_name", "it")
        case "CONTEXT_UNAVAILABLE_FOR_REMOTE_CLIENT":
            name = "SparkContext"
        case "NOT_IMPLEMENTED":
            name = (error.getMessageParameters() or {}).get("feature", "it")
        case _:
            return ""
    advice = f"{_WAYS_OUT[name]}, or {_ELSE}" if name in _WAYS_OUT else _ELSE
    return (
        f"{name} is not there: the session is one of Spark Connect, without RDDs and without the driver's JVM; {advice}"
    )
