"""`firesteel doctor`, and what is said of a Java that will not do."""

import json
import os
import socket
from pathlib import Path

import pytest

from firesteel.adapters.spark.worker.workdirs import LOCK, open_own
from firesteel.cli import doctor
from firesteel.cli.java import find_java, java_problem, major_version
from firesteel.model.options import Configuration

NOTHING = Configuration()


def install_java(home: Path, release: str) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text(release)
    return home


GOOD = 'JAVA_VERSION="17.0.15"\nMODULES="java.base jdk.incubator.vector"\n'


@pytest.mark.parametrize(
    ("release", "message"),
    [
        (GOOD, ""),
        ('JAVA_VERSION="1.8.0_402"\n', "is Java 1.8.0_402, and Spark needs 17 or newer: install Java 17 or 21"),
        ('JAVA_VERSION="21"\nMODULES="java.base"\n', "lacks the module jdk.incubator.vector"),
        ("", ""),
    ],
)
def test_java_is_judged_by_its_release_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, message: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(install_java(tmp_path / "java", release)))
    assert (message in java_problem()) if message else java_problem() == ""


def test_missing_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert java_problem().startswith("Java is missing, and Spark needs it: install Java 17 or 21 (Debian")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java_problem().startswith(f"JAVA_HOME is {tmp_path}, but there is no Java in it")
    [finding] = doctor.check_java(NOTHING)
    assert finding.verdict is doctor.Verdict.WRONG
    assert "install Java" in finding.remedy


def test_java_on_the_path_is_followed_to_its_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = install_java(tmp_path / "java", GOOD)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    java = find_java()
    assert java is not None
    assert (java.major, java.modules) == (17, ("java.base", "jdk.incubator.vector"))


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("1.8.0", 8), ("21", 21), ("24-ea", 24), ("", 0)])
def test_major_version(version: str, major: int) -> None:
    assert major_version(version) == major


def test_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        doctor, "_version", lambda name: {"pyspark": "3.5.1", "pandas": "3.0.1", "grpcio": "1"}.get(name, "")
    )
    wrong = {each.subject: each for each in doctor.check_packages(NOTHING) if each.verdict is doctor.Verdict.WRONG}
    assert sorted(wrong) == ["PySpark", "pandas", "pyarrow"]
    assert "version 3.5.1 is installed; 4.3 is needed" in wrong["PySpark"].message
    assert all(each.remedy for each in wrong.values())


def test_a_directory_that_can_not_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    configuration = Configuration({"cluster.work-dir": os.fspath(file / "below")})
    wrong = [each for each in doctor.check_directories(configuration) if each.verdict is doctor.Verdict.WRONG]
    assert [each.subject for each in wrong] == ["work directory"]


def test_too_little_memory() -> None:
    [finding] = doctor.check_memory(Configuration({"taskmanager.spark.heap": "900t"}))
    assert finding.verdict is doctor.Verdict.WARNING
    assert "taskmanager.spark.heap=512m" in finding.remedy


def test_what_dead_workers_have_left_is_listed(tmp_path: Path) -> None:
    living, dead, distant = (open_own(tmp_path / name, name, "here:6123") for name in ("living", "dead", "distant"))
    assert living is not None
    assert dead is not None
    assert distant is not None
    (dead.path / "partitions" / ("a" * 32)).mkdir(parents=True)
    dead.close()
    distant.close()
    lock = distant.path / LOCK
    lock.write_text(lock.read_text().replace('"host":"', '"host":"not-'))
    first, second = doctor.check_dead_workers(Configuration({"cluster.work-dir": str(tmp_path)}))
    assert first.verdict is doctor.Verdict.WARNING
    assert f"{dead.path} of dead (cluster here:6123), with something of 1 job" in first.message
    assert f"{distant.path} of distant on not-" in second.message
    living.stop()
    (nothing,) = doctor.check_dead_workers(Configuration({"cluster.work-dir": str(tmp_path / "other")}))
    assert nothing.verdict is doctor.Verdict.OK


def test_exit_code_and_output(command, monkeypatch: pytest.MonkeyPatch) -> None:
    good = doctor.Finding("Java", doctor.Verdict.OK, "17")
    bad = doctor.Finding("pandas", doctor.Verdict.WRONG, "3", "pip install 'pandas<3'")
    monkeypatch.setattr(doctor, "CHECKS", (lambda _: iter([good]),))
    assert command("doctor") == (0, "ok       Java: 17\n", "")
    monkeypatch.setattr(doctor, "CHECKS", (lambda _: iter([good, bad]),))
    code, out, _ = command("doctor")
    assert (code, out.splitlines()[1:]) == (1, ["wrong    pandas: 3", "         -> pip install 'pandas<3'"])
    assert json.loads(command("doctor", "--json")[1])["findings"][1]["verdict"] == "wrong"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"cluster.results-dir": "s4://bucket/x"}, "cluster.results-dir: s4://bucket/x: s4:// is no storage"),
        (
            {"cluster.results-dir": "s3://bucket/x", "s3.access-key": "k"},
            "a worker can't use s3a://bucket/x (cluster.results-dir) for stored results: s3a://bucket/x: s3://bucket: set both",
        ),
        (
            {
                "cluster.results-dir": "s3://bucket/x",
                "s3.endpoint": "http://127.0.0.1:1",
                "s3.access-key": "k",
                "s3.secret-key": "s",
            },
            "a worker can't use s3a://bucket/x (cluster.results-dir) for stored results: s3://bucket/x",
        ),
        (
            {"cluster.results-dir": "hdfs://nn:8020/x", "fs.hdfs.webhdfs-address": "127.0.0.1:1"},
            "a worker can't use hdfs://nn:8020/x (cluster.results-dir) for stored results: hdfs://nn:8020/x: http://127.0.0.1:1",
        ),
    ],
)
def test_a_storage_of_results_that_can_not_be_used(settings: dict[str, str], told: str) -> None:
    """Spark need not be asked any more."""
    [finding] = doctor.check_storages(Configuration(settings))
    assert (finding.subject, finding.verdict) == ("results, for workers", doctor.Verdict.WRONG)
    assert finding.message.startswith(told)


def test_the_storage_of_masters_is_looked_at(tmp_path: Path) -> None:
    options = {"high-availability.type": "filesystem", "high-availability.storageDir": f"{tmp_path}/ha"}
    [finding] = doctor.check_storages(Configuration(options))
    assert (finding.subject, finding.verdict) == ("storage of masters", doctor.Verdict.OK)
    (tmp_path / "file").touch()
    options["high-availability.storageDir"] = f"{tmp_path}/file/x"
    [finding] = doctor.check_storages(Configuration(options))
    assert finding.verdict is doctor.Verdict.WRONG
    assert str(tmp_path) in finding.message


def test_a_port_of_a_master_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = list(doctor.check_ports(Configuration({"rest.port": str(port), "jobmanager.rpc.port": "0"})))
    assert [each.verdict for each in found] == [doctor.Verdict.OK, doctor.Verdict.WARNING]
    assert found[1].message.startswith(f"rest.port {port} can't be opened: ")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"taskmanager.spark.isolation": "job", "taskmanager.numberOfTaskSlots": "40"},
            "with taskmanager.spark.isolation: job each of 40 slots has ",
        ),
        ({"security.ssl.internal.enabled": "true"}, "security.ssl.internal.enabled is true: set "),
        (
            {
                "security.ssl.internal.enabled": "true",
                "security.ssl.internal.certificate": "/no/such.pem",
                "security.ssl.internal.private-key": "/no/such.key",
                "security.ssl.internal.certificate-authorities": "/no/such.ca",
            },
            "security.ssl.internal.certificate: /no/such.pem: No such file or directory",
        ),
    ],
)
def test_what_a_process_would_not_start_with(settings: dict[str, str], told: str) -> None:
    [finding] = doctor.check_sizes_and_certificates(Configuration(settings))
    assert finding.verdict is doctor.Verdict.WRONG
    assert finding.message.startswith(told)
