"""`firesteel doctor`: what is wrong with this machine, and how to mend it."""

import contextlib
import importlib.metadata
import os
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from pathlib import Path

import click
import msgspec

from firesteel.cli.exits import FINISHED, JOB_FAILED
from firesteel.cli.java import HOW_TO_GET, MODULE, OLDEST, find_java, java_problem, major_version
from firesteel.cli.settings import load_configuration
from firesteel.model.counts import counted
from firesteel.model.options import (
    HA_STORAGE_DIR,
    JOBMANAGER_PORT,
    REST_PORT,
    RESULTS_DIR,
    SPARK_HEAP,
    WORK_DIR,
    Configuration,
    ConfigurationError,
)
from firesteel.model.versions import SPARK_SERIES
from firesteel.runtime.directories import cache_directory

FREE_DISK_MIB_MIN = 1024
JAVA_TIMEOUT_S = 30


class Verdict(Enum):
    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


class Finding(msgspec.Struct, frozen=True):
    """Result of a check. `remedy` says how to mend what is not ok."""

    subject: str
    verdict: Verdict
    message: str
    remedy: str = ""


@click.command()
@click.option("-D", "definitions", multiple=True, metavar="KEY=VALUE", help="A configuration option, or spark.*.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def doctor(definitions: Sequence[str], as_json: bool) -> int:
    """Check Java, PySpark, ports, directories and memory. The exit code is 1 when something is wrong."""
    configuration = load_configuration(definitions)
    findings = [finding for check in CHECKS for finding in check(configuration)]
    if as_json:
        click.echo(msgspec.json.encode({"findings": findings}))
    else:
        for finding in findings:
            click.echo(f"{finding.verdict.value:8} {finding.subject}: {finding.message}")
            if finding.remedy:
                click.echo(f"{'':8} -> {finding.remedy}")
    return JOB_FAILED if any(finding.verdict is Verdict.WRONG for finding in findings) else FINISHED


def check_java(_: Configuration) -> Iterator[Finding]:
    """Java is there, new enough, and has what Spark loads."""
    if problem := java_problem():
        what, _sep, remedy = problem.partition(": ")
        yield Finding("Java", Verdict.WRONG, what, remedy)
        return
    java = find_java()
    assert java is not None, "no problem means there is one"
    version = java.version or _java_version(_output(java.executable, "-version"))
    if major_version(version) < OLDEST:
        yield Finding("Java", Verdict.WRONG, f"{java.executable} is version {version or 'unknown'}", HOW_TO_GET)
        return
    modules = java.modules or tuple(line.split("@")[0] for line in _output(java.executable, "--list-modules").split())
    if MODULE not in modules:
        yield Finding("Java", Verdict.WRONG, f"{java.executable} lacks the module {MODULE}", HOW_TO_GET)
        return
    yield Finding("Java", Verdict.OK, f"{version} ({java.executable})")


def check_packages(_: Configuration) -> Iterator[Finding]:
    """PySpark with what Spark Connect needs, in versions that fit."""
    pyspark = _version("pyspark")
    if not pyspark.startswith(SPARK_SERIES):
        found = f"version {pyspark} is installed" if pyspark else "not installed"
        remedy = f"pip install 'pyspark[connect]=={SPARK_SERIES}.*'"
        yield Finding("PySpark", Verdict.WRONG, f"{found}; {SPARK_SERIES} is needed", remedy)
    else:
        yield Finding("PySpark", Verdict.OK, pyspark)
    for name, remedy in (("grpcio", "pip install 'pyspark[connect]'"), ("pyarrow", "pip install 'pyspark[connect]'")):
        version = _version(name)
        yield Finding(name, Verdict.OK, version) if version else Finding(name, Verdict.WRONG, "not installed", remedy)
    pandas = _version("pandas")
    fits = pandas and major_version(pandas) < 3
    yield (
        Finding("pandas", Verdict.OK, pandas)
        if fits
        else Finding(
            "pandas", Verdict.WRONG, f"{pandas or 'not installed'}; below 3 is needed", "pip install 'pandas<3'"
        )
    )


def check_ports(configuration: Configuration) -> Iterator[Finding]:
    """The loopback address can be bound: Spark and its Python processes talk over it. Ports of a master are free."""
    try:
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
    except OSError as error:
        remedy = "give this container or sandbox a loopback interface, and free ephemeral ports"
        yield Finding("ports", Verdict.WRONG, f"no port can be opened on 127.0.0.1: {error}", remedy)
        return
    yield Finding("ports", Verdict.OK, "free ports on 127.0.0.1")
    for option in (REST_PORT, JOBMANAGER_PORT):
        port = configuration.get_option(option)
        try:
            with socket.create_server(("127.0.0.1", port)):
                pass
        except OSError as error:
            remedy = f"if it is not a master that is meant to be here, set {option.key} to another, or to 0 for any"
            yield Finding("ports", Verdict.WARNING, f"{option.key} {port} can't be opened: {error.strerror}", remedy)


def check_sizes_and_certificates(configuration: Configuration) -> Iterator[Finding]:
    """What a worker or a master would refuse to start with."""
    from firesteel.adapters.rpc.settings import network_settings
    from firesteel.adapters.spark.jvm.sizes import backend_size

    try:
        size = backend_size(configuration)
        network_settings(configuration, "doctor")
    except ConfigurationError as error:
        yield Finding("configuration", Verdict.WRONG, str(error))
        return
    yield Finding("configuration", Verdict.OK, f"a JVM of {size.heap_mib} MiB with {size.cores} cores")


def check_directories(configuration: Configuration) -> Iterator[Finding]:
    """Work, temporary and cache directories can be written, and have room."""
    work_dir = configuration.get_option(WORK_DIR)
    places = {
        "work directory": work_dir or tempfile.gettempdir(),
        "Spark's local directory": _spark_local(configuration),
    }
    for subject, place in places.items():
        yield _writable(subject, Path(place), Verdict.WRONG, "set cluster.work-dir, or TMPDIR, to a place with room")
    hint = "set XDG_CACHE_HOME: without it every start of Spark takes about twice as long"
    yield _writable("cache directory", cache_directory(), Verdict.WARNING, hint)


def check_memory(configuration: Configuration) -> Iterator[Finding]:
    """The machine has room for the Spark heap and the Python processes beside it."""
    import psutil

    available_mib = psutil.virtual_memory().available // 1024 // 1024
    heap_mib = configuration.get_option(SPARK_HEAP)
    needed_mib = heap_mib + 512
    message = f"{available_mib} MiB available, a Spark heap of {heap_mib} MiB is configured"
    if available_mib < needed_mib:
        remedy = f"free memory, or lower {SPARK_HEAP.key} (-D {SPARK_HEAP.key}=512m)"
        yield Finding("memory", Verdict.WARNING, f"{message}, about {needed_mib} MiB are needed in all", remedy)
        return
    yield Finding("memory", Verdict.OK, message)


def check_storages(configuration: Configuration) -> Iterator[Finding]:
    """What processes of this cluster share can be used from here: by masters, by workers, and by their Spark."""
    from firesteel.adapters.ha.storage import configured_storage
    from firesteel.adapters.storage.resultsprobe import ResultsUnusable, probe_results

    try:
        storage, where = configured_storage(configuration), configuration.get_option(HA_STORAGE_DIR)
        if storage is not None:
            storage.prepare()
            yield Finding("storage of masters", Verdict.OK, where)
    except (OSError, ConfigurationError) as error:
        yield Finding("storage of masters", Verdict.WRONG, str(error), f"set {HA_STORAGE_DIR.key}")
    if not configuration.get_option(RESULTS_DIR):
        return
    try:
        found = probe_results(configuration, "a worker", os.environ)
    except (ResultsUnusable, ConfigurationError) as error:
        yield Finding("results, for workers", Verdict.WRONG, str(error))
        return
    yield Finding("results, for workers", Verdict.OK, f"{found.where} (storage {found.identity})")
    yield from _of_spark(configuration, found.where)


def check_dead_workers(configuration: Configuration) -> Iterator[Finding]:
    """Check for what workers that were killed have left here, and nobody has cleared."""
    from firesteel.adapters.spark.worker.workdirs import TEMPORARY, dead_ones, of_other_hosts

    work_dir = configuration.get_option(WORK_DIR)
    parent, pattern = Path(work_dir or tempfile.gettempdir()), "*" if work_dir else f"{TEMPORARY}*"
    dead = list(dead_ones(parent, pattern))
    for each in dead:
        jobs = counted(len(each.jobs()), "job")
        message = f"{each.path} of {each.owner.worker} (cluster {each.owner.cluster}), with something of {jobs}"
        remedy = "the next worker of its cluster on this host clears it; if there is to be none, delete it"
        if not each.owner.was_stopped:
            yield Finding("dead worker", Verdict.WARNING, message, remedy)
        each.close()
    for path, owner in of_other_hosts(parent, pattern):
        message = f"{path} of {owner.worker} on {owner.host}: only there can be told whether it lives"
        yield Finding("worker of another host", Verdict.OK, message)
    if not dead:
        yield Finding("dead workers", Verdict.OK, f"none has left anything in {parent}")


def check_unremoved(configuration: Configuration) -> Iterator[Finding]:
    """Check for what was staged beside targets, is needed by nobody, and could not be removed."""
    from firesteel.adapters.storage.unremoved import unremoved

    found = unremoved()
    for each in found:
        remedy = "the next job of yours that writes beside it on this host removes it, if it then can be; or delete it"
        yield Finding("staged rows", Verdict.WARNING, f"{each.location} could not be removed: {each.reason}", remedy)
    if not found:
        yield Finding("staged rows", Verdict.OK, "none have stayed here that nobody needs")


CHECKS: tuple[Callable[[Configuration], Iterator[Finding]], ...] = (
    check_java,
    check_packages,
    check_ports,
    check_sizes_and_certificates,
    check_directories,
    check_memory,
    check_dead_workers,
    check_unremoved,
    check_storages,
)


def _of_spark(configuration: Configuration, where: str) -> Iterator[Finding]:
    """Spark writes where our own process reads: two clients, with jars and settings of their own."""
    from firesteel.adapters.spark.jvm.storageprobe import spark_problem
    from firesteel.adapters.storage.s3settings import hadoop_settings
    from firesteel.adapters.storage.schemes import scheme_name
    from firesteel.adapters.storage.serving import directories_at
    from firesteel.runtime.ports import TaskFailedError

    hadoop, own = hadoop_settings(configuration, os.environ), f"{where}/_firesteel_probe-{uuid.uuid4().hex}"
    directories = directories_at(where, hadoop, patient=False)
    try:
        problem = spark_problem(own, configuration.spark(), hadoop)
        if not problem and not directories.files(own):
            problem = f"what Spark has written to {own} is not there for a worker"
    except TaskFailedError as error:
        problem = error.failure.message
    except OSError as error:
        problem = str(error)
    finally:
        with contextlib.suppress(OSError):
            directories.remove(own)
    if problem:
        keys = "HADOOP_CONF_DIR, spark.hadoop.*" if scheme_name(where) == "hdfs" else "spark.jars.packages, s3.*"
        yield Finding("results, for Spark", Verdict.WRONG, problem, f"see docs/sinks.md: {keys}")
    else:
        yield Finding("results, for Spark", Verdict.OK, where)


def _writable(subject: str, place: Path, verdict: Verdict, remedy: str) -> Finding:
    existing = next(each for each in (place, *place.parents) if each.exists())
    try:
        with tempfile.TemporaryFile(dir=existing) as probe:
            probe.write(b"probe")
            probe.flush()
    except OSError as error:
        return Finding(subject, verdict, f"{place} can't be written: {error.strerror}", remedy)
    free_mib = shutil.disk_usage(existing).free // 1024 // 1024
    if free_mib < FREE_DISK_MIB_MIN:
        return Finding(subject, Verdict.WARNING, f"{place} has {free_mib} MiB free", remedy)
    return Finding(subject, Verdict.OK, f"{place} ({free_mib // 1024} GiB free)")


def _spark_local(configuration: Configuration) -> str:
    return os.environ.get("SPARK_LOCAL_DIRS") or configuration.get("spark.local.dir") or tempfile.gettempdir()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=JAVA_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def _java_version(text: str) -> str:
    return text.split('"')[1] if text.count('"') >= 2 else ""
