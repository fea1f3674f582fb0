"""How workers of tests start the JVMs of Spark: most live for a minute, and all share two cores."""

from firesteel.adapters.spark.jvm import launch
from tools.archive import file_of

SHORT_LIVED = (
    "-XX:TieredStopAtLevel=1 -XX:Tier3InvocationThreshold=200 -XX:Tier3MinInvocationThreshold=100"
    " -XX:Tier3CompileThreshold=2000 -XX:+UseSerialGC -XX:MetaspaceSize=256m"
    " -XX:ReservedCodeCacheSize=128m"
)
"""What the second compiler and the threads of the collector take, no test gives back: a fifth of the processor time. The first
compiler may begin as early as Java has it, which `jvm/launch.py` has not: what hundreds of tests call is compiled sooner. And
classes fill the space that Java begins with, for which it would collect the whole heap; code that of a single compiler: 41 of
48 MB after half of `integration/cluster`, and with none left nothing is compiled any more."""


def quick_start() -> dict[str, str]:
    """Configuration of a worker. With this machine's class-data archive (`make archive`) its JVMs start in half the time;
    where there is none, each would start a process that makes it and outlives the test. None is warmed up for its first job."""
    archive = str(file_of(launch.find_installation()).exists()).lower()
    return {
        "taskmanager.spark.class-data-archive": archive,
        "taskmanager.spark.warm-up": "false",
        "spark.driver.extraJavaOptions": SHORT_LIVED,
    }


def quick_start_arguments() -> list[str]:
    """The same for a command line."""
    return [text for key, value in quick_start().items() for text in ("-D", f"{key}={value}")]
