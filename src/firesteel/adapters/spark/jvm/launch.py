"""The command line of a Spark backend JVM, and the files that it names."""

import importlib.metadata
import importlib.util
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from firesteel.adapters.spark.clusters.masters import LOOPBACK, Driver, attached_settings
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.options import SPARK_EVENT_LOG_DIR
from firesteel.model.secrets import SECRET_KEYS, is_secret
from firesteel.runtime.directories import write_private
from firesteel.runtime.ports import TaskFailedError

SUBMIT_CLASS = "org.apache.spark.deploy.SparkSubmit"
SERVER_CLASS = "firesteel.Server"
"""Spark's Connect server, but for how its scheduler breaks ties."""
LOCAL_IP = "SPARK_LOCAL_IP"
LOG_CONFIGURATION_NAME = "log4j2.properties"
SECRETS_NAME = "secrets.args"
"""File of arguments that only its owner may read: anyone on the machine can read a command line."""
LOG_CONFIGURATION = """\
rootLogger.level = warn
rootLogger.appenderRef.stdout.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS} %p %c{1}: %m%n%ex
logger.server.name = org.apache.spark.sql.connect.service.SparkConnectServer
logger.server.level = info
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.written.name = org.apache.spark.sql.execution.datasources.BasicWriteTaskStatsTracker
logger.written.level = error
"""
"""Warnings, but for one that misses a file where stored rows have several, and the line that names the port (`STARTED`)."""
CLUSTER_LOG_CONFIGURATION = """\
logger.client.name = org.apache.spark.deploy.client
logger.client.level = info
logger.yarn.name = org.apache.spark.deploy.yarn.Client
logger.yarn.level = info
logger.cluster.name = org.apache.spark.scheduler.cluster
logger.cluster.level = info
logger.ui.name = org.apache.spark.util.Utils
logger.ui.level = info
"""
"""Beside that, where executors are elsewhere: the lines that `clusters.story` reads."""
SCHEDULER_POOL = "spark.scheduler.pool"
"""A setting of a session that Spark hands on to each of its queries: the pool that their tasks are scheduled in."""
PYTHON_DAEMON = "firesteel.adapters.spark.task.pythondaemon"
PRINTED = "printed"
"""Directory below a worker's, with a link for each session to where its Python functions print."""
PRINTED_VARIABLE = "FIRESTEEL_PYTHON_PRINTED"
STARTED = "Spark Connect server started at: "
BYPASS_MERGE_PARTITIONS_MAX = 8
"""Up to so many partitions a task of a shuffle writes a file for each, beyond that one in all. Spark's own limit is 200,
as many as a shuffle has by default: with four tasks that were 800 files, and most of the time of a small query."""

_PACKAGE = Path(__file__).parents[3]
"""firesteel."""
LOCAL_FILES = Path(__file__).with_name("hadoop") / "local-files.jar"
"""Local files without a process for each; its source is beside it."""
SERVER = Path(__file__).with_name("scheduling") / "server.jar"
"""The main class; its source is beside it."""
STORED_ROWS = Path(__file__).with_name("results") / "stored-rows.jar"
"""The form in which results are stored; its source is beside it."""
TASK_CLASSES = Path(__file__).with_name("tasks") / "task-classes.jar"
"""A plugin of Spark's by which sessions share generated code; its source is beside it."""

_OPENED = [
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "jdk.internal.ref",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
]
# What Spark's own launcher passes (JavaModuleOptions of 4.3).
_MODULE_FLAGS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-modules=jdk.incubator.vector",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dderby.connection.requireAuthentication=false",
)
# The optimising compiler (C2) takes half of the CPU time of a cold start, on methods that turn out not to matter. So it
# waits until a method has been called 20 times as often as usual; a query that runs for seconds gets there anyway.
_PATIENT_COMPILER = (
    "-XX:Tier3InvocationThreshold=1000",
    "-XX:Tier3MinInvocationThreshold=500",
    "-XX:Tier3CompileThreshold=5000",
    "-XX:Tier4InvocationThreshold=100000",
    "-XX:Tier4MinInvocationThreshold=12000",
    "-XX:Tier4CompileThreshold=300000",
    "-XX:Tier4BackEdgeThreshold=400000",
)


class SparkInstallation(msgspec.Struct, frozen=True):
    """The Spark and the Java of this machine."""

    home: Path
    version: str
    java: str


def find_installation() -> SparkInstallation:
    """PySpark's jars and a Java, without importing pyspark. Raises TaskFailedError (NON_RECOVERABLE)."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise _unusable("pyspark is not installed here: pip install 'pyspark[connect]'")
    home = Path(os.environ.get("SPARK_HOME") or spec.submodule_search_locations[0])
    java_home = os.environ.get("JAVA_HOME")
    java = str(Path(java_home, "bin", "java")) if java_home else shutil.which("java")
    if java is None or not os.access(java, os.X_OK):
        raise _unusable("no Java was found: install Java 17 or 21, or set JAVA_HOME")
    return SparkInstallation(home, importlib.metadata.version("pyspark"), java)


def jvm_flags(heap_mib: int) -> tuple[str, ...]:
    """Flags of the JVM."""
    return (f"-Xmx{heap_mib}m", *_MODULE_FLAGS, *_PATIENT_COMPILER, "-XX:-UsePerfData", "-XX:+ExitOnOutOfMemoryError")


def archive_command(installation: SparkInstallation) -> list[str]:
    """A JVM whose classes are laid out as the backend's, up to the main class: for making an archive."""
    return [installation.java, "-cp", base_class_path(installation), *_MODULE_FLAGS]


def spark_configuration(
    work_dir: Path, cores: int, user: Mapping[str, str], driver: Driver | None = None
) -> dict[str, str]:
    """Spark's settings for a backend of one worker: ours for a short start and a closed door, the user's on top.

    The door to executors is open where they are elsewhere; that of the Connect server never is.
    """
    defaults = {
        "spark.app.name": "firesteel" if driver is None else f"firesteel on {driver.host}",
        "spark.master": f"local[{cores}]",
        "spark.ui.showConsoleProgress": "false",
        **(_here() if driver is None else attached_settings(driver, user, os.environ.get(LOCAL_IP, ""))),
        "spark.scheduler.mode": "FAIR",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(work_dir / "warehouse"),
        "spark.local.dir": str(work_dir / "local"),
        **_local_files(user),
        "spark.redaction.regex": SECRET_KEYS,
        "spark.shuffle.sort.bypassMergeThreshold": str(BYPASS_MERGE_PARTITIONS_MAX),
        "spark.connect.progress.reportInterval": "200ms",
        "spark.connect.execute.manager.detachedTimeout": "1h",
    }
    fixed = {
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": "0",
        "spark.connect.session.manager.defaultSessionTimeout": "-1",
        "spark.ui.killEnabled": "false",  # whoever may look at a job may read these pages
    }
    if not configuration_directories():  # where s3:// may mean something else
        defaults["spark.hadoop.fs.s3.impl"] = "org.apache.hadoop.fs.s3a.S3AFileSystem"
    settings = {**defaults, **python_daemon(user), **user, **fixed}
    return settings | (_plugins(user) if _is_all_here(settings) else {})


UI_SETTINGS = {"spark.ui.enabled": "true", "spark.ui.port": "0"}
"""Spark's pages."""


def event_log_settings(directory: str) -> dict[str, str]:
    """Settings with which Spark keeps its events there; a local directory is made, which Spark would not do.

    Raises TaskFailedError (NON_RECOVERABLE) when it can't be made.
    """
    try:
        place = urlsplit(directory)
        if place.scheme in ("", "file"):
            local = unquote(place.path) if place.scheme else directory  # Spark takes what is no URI as it stands
            Path(local).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise _unusable(f"{SPARK_EVENT_LOG_DIR.key}: {directory} is no directory that can be made: {error}") from None
    return {"spark.eventLog.enabled": "true", "spark.eventLog.dir": directory}


def java_command(
    installation: SparkInstallation, flags: Sequence[str], work_dir: Path, settings: Mapping[str, str]
) -> list[str]:
    """The whole command. Neither the token nor the settings of `secret_arguments` are in it."""
    more_paths = settings.get("spark.driver.extraClassPath", "")
    class_path = ":".join(filter(None, (*configuration_directories(), base_class_path(installation), more_paths)))
    return [
        installation.java,
        "-cp",
        class_path,
        *flags,
        f"-Djava.io.tmpdir={work_dir / 'tmp'}",
        f"-Dderby.system.home={work_dir / 'derby'}",
        f"-Dlog4j2.configurationFile={work_dir / LOG_CONFIGURATION_NAME}",
        *shlex.split(settings.get("spark.driver.extraJavaOptions", "")),
        *((f"@{work_dir / SECRETS_NAME}",) if secret_arguments(settings) else ()),
        *_main({key: value for key, value in settings.items() if not is_secret(key)}),
    ]


def kill_command(installation: SparkInstallation, application: str) -> list[str]:
    """Hadoop's own client, which ends an application on YARN."""
    class_path = ":".join((*configuration_directories(), base_class_path(installation)))
    client = "org.apache.hadoop.yarn.client.cli.ApplicationCLI"
    return [
        installation.java,
        "-XX:TieredStopAtLevel=1",
        "-cp",
        class_path,
        client,
        "application",
        "-kill",
        application,
    ]


def secret_arguments(settings: Mapping[str, str]) -> str:
    """Text of the file with the settings that no command line shows; empty when there is none."""
    texts = (f"-D{key}={value}" for key, value in settings.items() if is_secret(key))
    return "".join('"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"\n' for text in texts)


def _main(settings: Mapping[str, str]) -> list[str]:
    """The server's class; through spark-submit's when there are jars to fetch or a cluster to attach to."""
    if _is_all_here(settings):
        return [*(f"-D{key}={value}" for key, value in settings.items()), SERVER_CLASS]
    confs = [text for key, value in settings.items() for text in ("--conf", f"{key}={value}")]
    return [SUBMIT_CLASS, *confs, "--class", SERVER_CLASS, "spark-internal"]


def _is_all_here(settings: Mapping[str, str]) -> bool:
    """Whether tasks run in this JVM, and all classes are on its class path."""
    is_local = settings["spark.master"].startswith("local")
    return is_local and not any(key.startswith(("spark.jars", "spark.submit", "spark.files")) for key in settings)


def base_class_path(installation: SparkInstallation) -> str:
    """Spark's own jars and ours, in an order that is always the same: an archive of classes fits one order only."""
    return f"{installation.home}/jars/*:{LOCAL_FILES}:{SERVER}:{TASK_CLASSES}:{STORED_ROWS}"


def configuration_directories() -> tuple[str, ...]:
    """Directories with Hadoop's and Hive's own files, which Spark reads from the class path."""
    return tuple(
        path for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR") if (path := os.environ.get(name))
    )


def python_daemon(user: Mapping[str, str]) -> dict[str, str]:
    """The setting that has Spark start Python workers by way of ours; none where they may run a Python without it."""
    is_another = os.environ.get("PYSPARK_PYTHON", sys.executable) != sys.executable or "spark.pyspark.python" in user
    is_local = user.get("spark.master", "local").startswith("local")
    return {} if is_another or not is_local else {"spark.python.daemon.module": PYTHON_DAEMON}


def _here() -> dict[str, str]:
    """Where all of Spark is in one JVM."""
    return {"spark.ui.enabled": "false", "spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}


def _local_files(user: Mapping[str, str]) -> dict[str, str]:
    """The setting that has Spark use our local files; none where executors, which do not have them, are elsewhere."""
    is_local = user.get("spark.master", "local").startswith("local")
    if not is_local or "spark.hadoop.fs.file.impl" in user:
        return {}
    return {
        "spark.hadoop.fs.file.impl": "firesteel.LocalFiles",
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "firesteel.LocalFiles$Context",
    }


def _plugins(user: Mapping[str, str]) -> dict[str, str]:
    """The setting that has Spark load ours, beside the user's."""
    return {"spark.plugins": ",".join(filter(None, (user.get("spark.plugins", ""), "firesteel.TaskClasses")))}


def place_modules(work_dir: Path) -> Path:
    """A directory with firesteel and nothing else of the worker's: a job's own interpreter finds the daemon there, too."""
    directory = work_dir / "modules"
    directory.mkdir(parents=True, exist_ok=True)
    link = directory / _PACKAGE.name
    if not link.is_symlink() or link.readlink() != _PACKAGE:
        link.unlink(missing_ok=True)
        link.symlink_to(_PACKAGE)
    return directory


def jvm_environment(token: str, printed: Path, modules: Path, driver: Driver | None = None) -> dict[str, str]:
    """The worker's environment, with the token, the Python that Spark's Python workers use, `modules` for all others that may
    be used, and where they find what they print to."""
    is_open = driver is not None and not driver.has_private_pages  # Spark serves its pages at this address
    address = os.environ.get(LOCAL_IP, driver.address) if driver is not None and is_open else LOOPBACK
    return {
        **os.environ,
        "SPARK_CONNECT_AUTHENTICATE_TOKEN": token,
        **({LOCAL_IP: address} if address else {}),
        PRINTED_VARIABLE: str(printed),
        "PYTHONPATH": os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(modules)))),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
    }


def _unusable(message: str) -> TaskFailedError:
    return TaskFailedError(FailureInfo(kind=FailureKind.NON_RECOVERABLE, message=message))


def backend_command(
    installation: SparkInstallation,
    heap_mib: int,
    work_dir: Path,
    settings: Mapping[str, str],
    *,
    tells_more: bool = False,
) -> Callable[[tuple[str, ...]], list[str]]:
    """Makes the command for the given flags of a class-data archive; prepares the directories it names."""
    for name in ("tmp", "derby", "local", "warehouse"):
        (work_dir / name).mkdir(parents=True, exist_ok=True)
    (work_dir / LOG_CONFIGURATION_NAME).write_text(
        LOG_CONFIGURATION + (CLUSTER_LOG_CONFIGURATION if tells_more else "")
    )
    write_private(work_dir / SECRETS_NAME, secret_arguments(settings))

    def make(archive_flags: tuple[str, ...]) -> list[str]:
        flags = (*jvm_flags(heap_mib), *archive_flags)
        return java_command(installation, flags, work_dir, settings)

    return make
