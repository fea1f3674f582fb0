"""A small JVM beside this process, for what Spark Connect has no words for: a database's or a broker's own client.

The gateway is py4j's, which comes with PySpark; its JVM starts in 0.2 s and ends with this process, however that ends.
"""

import contextlib
import glob
import os
from collections.abc import Iterator
from typing import Any

from firesteel.adapters.spark.jvm import launch

_JVM_FLAGS = ["-Xmx256m", "-XX:TieredStopAtLevel=1"]
"""No collector: a user may have named one for all JVMs (JAVA_TOOL_OPTIONS), and with two Java does not start."""


def class_path_of(spark: Any) -> str:
    """The jars that the user has given the session's Spark, beside its own: also those that it has fetched itself."""
    conf = spark.conf
    jars = conf.get("spark.jars", "")
    if not jars and conf.get("spark.submit.deployMode", ""):
        # Spark keeps settings to itself that look like secrets, and a jar of Kafka's has "token" in its name.
        jars = spark.sql("SELECT java_method('java.lang.System', 'getProperty', 'spark.jars')").first()[0] or ""
    return os.pathsep.join(filter(None, (conf.get("spark.driver.extraClassPath", ""), jars.replace(",", os.pathsep))))


@contextlib.contextmanager
def opened(class_path: str) -> Iterator[Any]:
    """py4j's view of a JVM with these jars and Spark's own; it ends with the block."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    installation = launch.find_installation()
    (jar,) = glob.glob(f"{installation.home}/jars/py4j-*.jar")
    paths = os.pathsep.join(filter(None, (class_path, launch.base_class_path(installation))))
    port, token, process = launch_gateway(
        jarpath=jar,
        classpath=paths,
        javaopts=_JVM_FLAGS,
        die_on_exit=True,
        java_path=installation.java,
        enable_auth=True,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()
        with process:  # closes its pipes and awaits its end
            process.kill()  # else it waits for the end of this process
