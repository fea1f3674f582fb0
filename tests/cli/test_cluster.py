"""`firesteel cluster`: processes of this host, started once, found again, ended without a trace."""

import contextlib
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import httpx
import msgspec
import psutil
import pytest

from firesteel.cli import background
from firesteel.cli.background import (
    CLUSTER_VARIABLE,
    LOGS_KEPT,
    START_LIMIT_S,
    ClusterDirectory,
    Recorded,
    start_limit_s,
    start_process,
)
from firesteel.cli.clusters import thishost
from firesteel.cli.exits import CommandError
from firesteel.model.options import Configuration
from tests.processes import in_own_file_systems

Command = Callable[..., tuple[int, str, str]]
LIMIT_S = 300.0
SERVES = '#!/bin/sh\necho "started $3 at localhost:$$, REST at http://localhost:1$$"\nexec sleep 600\n'
"""What says as soon as it runs that it serves, in place of Python."""
SHORT_LEASE = ("-D", "high-availability.leader-election.lease-duration=1s")
FULL = 'mount -t tmpfs -o size=64k none "$0" && head -c "$1" /dev/zero > "$0/filled" && shift && exec "$@"'
"""What follows has a disk of 64 KiB at a directory, of which so much is taken."""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "cluster dir"


@pytest.fixture
def on_cluster(directory: Path) -> Iterator[Command]:
    """`firesteel cluster ...` as a process, with ports of its own; nothing runs in the end."""

    def run(*arguments: str, within: Sequence[str] = ()) -> tuple[int, str, str]:
        definitions = [f"cluster.dir={directory}", "jobmanager.rpc.port=0", "rest.port=0"]
        command = [*within, sys.executable, "-m", "firesteel", "cluster", *arguments]
        command += [part for each in definitions for part in ("-D", each)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        return done.returncode, done.stdout, done.stderr

    yield run
    run("stop")


@pytest.fixture
def made(directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterDirectory]:
    """A directory whose processes do nothing but to say that they serve; they are ended."""
    serves = tmp_path / "serves"
    serves.write_text(SERVES)
    serves.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(serves))
    for name in ("START_LIMIT_S", "HELPERS_LIMIT_S"):
        monkeypatch.setattr(thishost, name, 5.0)
    monkeypatch.setattr(thishost, "start_limit_s", lambda _: 5.0)
    made = ClusterDirectory(Configuration({"cluster.dir": str(directory)}))
    made.logs.mkdir(parents=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the command that starts them does not outlive them
        yield made
    thishost.end_all(made, Configuration({}))


def records(directory: Path) -> list[dict[str, object]]:
    file = directory / "processes.json"
    return json.loads(file.read_text()) if file.exists() else []


def kill(record: dict[str, object]) -> None:
    process = psutil.Process(int(str(record["pid"])))
    process.kill()
    process.wait(LIMIT_S)


def test_start_status_and_stop(on_cluster: Command, directory: Path) -> None:
    assert on_cluster("status")[0] == on_cluster("stop")[0] == 3
    code, out, err = on_cluster("start", "--taskmanagers", "0")
    assert (code, err) == (0, "")
    assert out.startswith("started jobmanager at localhost:")
    assert on_cluster("status")[0] == 0
    code, _, err = on_cluster("start")
    assert code == 2
    assert "a cluster runs here already: jobmanager at localhost:" in err
    (master,) = records(directory)
    assert on_cluster("stop")[:2] == (0, "stopped\n")
    assert not psutil.pid_exists(int(str(master["pid"])))
    assert sorted(path.name for path in directory.iterdir()) == ["lock", "log"]
    (log,) = (directory / "log").iterdir()
    assert "ERROR" not in log.read_text()
    assert "Traceback" not in log.read_text()


DEAF = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
time.sleep(600)
"""


def test_what_takes_long_to_end_is_said_before_it_is_killed(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(background, "QUIET_S", 0.1)
    monkeypatch.setattr(thishost, "stop_limit_s", lambda _: 1.0)
    monkeypatch.setattr(thishost, "HELPERS_LIMIT_S", 1.0)
    made = ClusterDirectory(Configuration({"cluster.dir": str(directory)}))
    made.logs.mkdir(parents=True)
    variables = {**os.environ, CLUSTER_VARIABLE: str(made.path)}
    deaf = [
        subprocess.Popen([sys.executable, "-c", DEAF], env=variables, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in deaf:
        assert process.stdout is not None
        with process.stdout:
            assert process.stdout.readline() == "deaf\n"
    worker, helper = (process.pid for process in deaf)
    started = psutil.Process(worker).create_time()
    made.write([Recorded(role="taskmanager", pid=worker, started=started, log="its.log", where="at home")])
    assert thishost.stop(made, Configuration({})) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"waiting for taskmanager at home (process {worker}) to end; it is killed after 1 s",
        f"waiting for a process that they have started ({helper}) to end; it is killed after 1 s",
        f"taskmanager at home (process {worker}) did not end by itself and was killed; see its.log",
    ]
    assert not any(map(psutil.pid_exists, (worker, helper)))
    for process in deaf:
        process.wait(LIMIT_S)


def test_status_tells_masters_that_run_from_one_that_leads(on_cluster: Command, tmp_path: Path) -> None:
    storage = tmp_path / "storage"
    options = [f"high-availability.storageDir={storage}", "high-availability.leader-election.lease-duration=2s"]
    given = [part for each in options for part in ("-D", each)]
    on_cluster("start", "--taskmanagers", "0", "--ha", "filesystem", *given)
    until = time.monotonic() + LIMIT_S
    code, out = 1, ""
    while code != 0 and time.monotonic() < until:  # with such a lease it may not lead for a moment, on a busy machine
        code, out, _ = on_cluster("status")
    assert (code, "a master leads, with 0 workers" in out) == (0, True)
    storage.rename(tmp_path / "elsewhere")  # at once: it writes there all the time
    while code == 0 and time.monotonic() < until:
        code, out, _ = on_cluster("status")
    assert (code, "no master leads" in out) == (1, True)


@pytest.mark.parametrize(
    ("taken_kib", "said"), [(64, "the register of the leader can't be used"), (60, "the dispatcher can't be led here")]
)
def test_a_start_on_a_full_disk_says_so(on_cluster: Command, directory: Path, taken_kib: int, said: str) -> None:
    """There is no room for the leader's record; or for that alone, and none for the journal of jobs."""
    full = in_own_file_systems(FULL, str(directory / "jobs"), str(taken_kib << 10))
    (directory / "jobs").mkdir(parents=True)
    code, out, err = on_cluster("start", "--taskmanagers", "0", *SHORT_LEASE, within=full)
    assert (code, out.count("started jobmanager")) == (1, 1)
    assert "no master leads at http://" in err
    assert f"{said} ([Errno 28] No space left on device" in err
    (master,) = records(directory)
    in_its_files = ("nsenter", "--target", str(master["pid"]), "--mount")
    subprocess.run((*in_its_files, "rm", str(directory / "jobs" / "filled")), check=True)
    until = time.monotonic() + LIMIT_S
    while code != 0 and time.monotonic() < until:
        code, _, _ = on_cluster("status")
    assert code == 0, "it leads when there is room"


def test_processes_that_are_gone_and_others_that_have_their_ids(on_cluster: Command, directory: Path) -> None:
    on_cluster("start", "--taskmanagers", "0")
    (master,) = records(directory)
    kill(master)
    code, out, _ = on_cluster("status")
    assert code == 1
    assert "is gone" in out
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as innocent:
        (directory / "processes.json").write_text(json.dumps([{**master, "pid": innocent.pid}]))
        code, out, err = on_cluster("start", "--taskmanagers", "0")
        assert (code, "are gone" in err) == (0, True)
        on_cluster("stop")
        assert innocent.poll() is None, "a process that has a dead one's id is not ended"


def test_a_start_that_fails_says_why_and_leaves_nothing(on_cluster: Command, directory: Path) -> None:
    code, out, err = on_cluster("start", "--taskmanagers", "0", "-D", "jobmanager.bind-host=192.0.2.1")
    assert (code, out) == (3, "")
    assert "192.0.2.1" in err
    assert records(directory) == []
    assert on_cluster("start", "-D", "jobmanager.rpc.prot=1")[0] == 2


def test_records_that_can_not_be_read(on_cluster: Command, directory: Path) -> None:
    directory.mkdir()
    (directory / "processes.json").write_text("{")
    for verb in ("start", "stop", "status"):
        code, _, err = on_cluster(verb)
        assert (code, "can't be read" in err) == (3, True)
    (directory / "processes.json").unlink()


def test_masters_that_are_killed_are_started_again(on_cluster: Command, directory: Path) -> None:
    """One of two, at its ports; then both, and what they kept is there."""
    code, out, err = on_cluster("start", "--masters", "2", "--taskmanagers", "0")
    assert (code, err) == (0, "")
    assert out.count("started jobmanager") == 2
    first, second = records(directory)
    kill(first)
    code, _, err = on_cluster("start")
    assert (code, "is gone: it is started again" in err) == (0, True)
    again, other = records(directory)
    assert again["where"] == first["where"]
    assert other == second
    for each in (again, other):
        kill(each)
    code, _, err = on_cluster("start", "--taskmanagers", "0")
    assert (code, "its jobs go on" in err) == (0, True)
    assert (directory / "jobs").exists()
    assert on_cluster("stop")[0] == 0
    assert not (directory / "jobs").exists()


def test_clients_find_the_cluster_of_this_machine(on_cluster: Command, directory: Path) -> None:
    """By what was written down at its start; after the first master was killed, by the second."""

    def listed(*definitions: str) -> subprocess.CompletedProcess[str]:
        given = [part for each in (f"cluster.dir={directory}", *definitions) for part in ("-D", each)]
        command = [sys.executable, "-m", "firesteel", "list", *given]
        return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    on_cluster("start", "--masters", "2", "--taskmanagers", "0")
    assert (listed().returncode, listed().stderr.startswith("no jobs")) == (0, True)
    kill(records(directory)[0])
    assert listed().returncode == 0
    assert "127.0.0.1:9:" in listed("rest.port=9").stderr, "another one is meant"
    on_cluster("stop")
    assert "nobody answers at http://127.0.0.1:" in listed("rest.port=9").stderr


def test_a_cluster_that_is_shut_down_over_rest_ends_with_its_standbys(on_cluster: Command, directory: Path) -> None:
    on_cluster("start", "--masters", "3", "--taskmanagers", "0")
    masters = records(directory)
    standby = str(masters[1]["where"]).rpartition(" REST at ")[2]
    until = time.monotonic() + LIMIT_S
    while (answer := httpx.delete(f"{standby}/v1/cluster", timeout=LIMIT_S)).status_code == 503:
        assert time.monotonic() < until, "it does not find the leader"
    assert answer.status_code == 200
    for each in masters:
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(int(str(each["pid"]))).wait(LIMIT_S)
        assert "Traceback" not in Path(str(each["log"])).read_text()
    assert on_cluster("status")[1].count("is gone") == 3


def test_what_processes_have_left_behind_ends_with_the_cluster(directory: Path, monkeypatch) -> None:
    monkeypatch.setattr(thishost, "HELPERS_LIMIT_S", 0.1)
    made = ClusterDirectory(Configuration({"cluster.dir": str(directory)}))
    marked = {**os.environ, CLUSTER_VARIABLE: str(made.path)}
    sleeping = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(sleeping, env=marked) as helper, subprocess.Popen(sleeping) as other:
        try:
            thishost.end_all(made, Configuration({}))
            helper.wait(LIMIT_S)
            assert other.poll() is None
        finally:
            helper.kill()
            other.kill()


def test_masters_that_start_within_a_second_have_logs_of_their_own(made: ClusterDirectory) -> None:
    masters = [start_process(made, "jobmanager", "jobmanager", ()) for _ in range(3)]
    made.write(
        [msgspec.structs.replace(each, where=f"localhost:{at}, REST at h:1{at}") for at, each in enumerate(masters)]
    )
    for each in masters[:2]:
        kill({"pid": each.pid})
    assert thishost.restart_masters(made)
    assert len({each.log for each in (*masters, *made.read())}) == 5
    assert len({each.where for each in made.read()}) == 3


def test_a_master_whose_restart_has_failed_is_started_again_at_its_ports(
    made: ClusterDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    former, other = (start_process(made, "jobmanager", "jobmanager", ()) for _ in range(2))
    served = [
        msgspec.structs.replace(each, where=f"localhost:{at}, REST at h:1{at}")
        for at, each in ((7, former), (8, other))
    ]
    made.write(served)
    kill({"pid": former.pid})
    with monkeypatch.context() as broken:
        broken.setattr(sys, "executable", "/bin/false")
        with pytest.raises(CommandError, match="has ended at once"):
            thishost.restart_masters(made)
    assert thishost.restart_masters(made)
    again, _ = made.read()
    assert again.where == f"at localhost:{again.pid}, REST at http://localhost:1{again.pid}"
    assert again.definitions == ("jobmanager.rpc.port=7", "rest.port=17")


def test_logs_of_what_runs_stay_and_of_the_others_the_newest(made: ClusterDirectory) -> None:
    thishost.start_workers(made, Configuration({}), LOGS_KEPT + 3, ())
    running = [Path(record.log) for record in made.read()]
    former = [running[0].with_suffix(".1.log"), *(made.logs / f"taskmanager-1-{at}.log" for at in range(LOGS_KEPT + 3))]
    for at, log in enumerate(former):
        log.touch()
        os.utime(log, (at, at))
    made.prune_logs()
    assert [log.name for log in running if not log.exists()] == []
    assert [log for log in former if log.exists()] == [former[0], *former[4:]]


def test_a_cluster_that_can_not_be(on_cluster: Command) -> None:
    for arguments, message in (
        (("--ha", "zookeper://host:1/x"), "write none, filesystem or zookeeper://HOST:PORT/ROOT"),
        (("--masters", "2", "--ha", "none"), "2 masters need --ha"),
        (("--masters", "0"), "--masters 0: a cluster has at least one master"),
        (("--masters", "-1"), "--masters -1: a cluster has at least one master"),
        (("-D", "taskmanager.numberOfTaskSlots=0"), "taskmanager.numberOfTaskSlots: it has to be at least 1, not 0"),
        (("--masters", "no-such-file"), "a file of hosts needs --hosts"),
    ):
        code, _, err = on_cluster("start", *arguments)
        assert (code, message in err) == (2, True), err


def test_workers_that_try_their_spark_first_have_longer() -> None:
    assert start_limit_s(Configuration()) == START_LIMIT_S
    for settings in ({"cluster.results-dir": "s3://bucket/x"}, {"taskmanager.spark.master": "spark://m:7077"}):
        assert start_limit_s(Configuration(settings)) > 5 * START_LIMIT_S, "jars may have to be fetched"
