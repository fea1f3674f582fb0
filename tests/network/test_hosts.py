"""`firesteel cluster --hosts`: a real ssh to addresses of this machine, each a host to those who use it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest

from firesteel.cli.background import Recorded
from tests.conftest import RUN_MARK
from tests.network.sshserver import SshServer
from tools import openssh

pytestmark = pytest.mark.skipif(openssh.server() is None, reason="needs OpenSSH's server: make openssh")

LIMIT_S = 300.0
ONE, TWO, CLOSED, NOWHERE = "127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"
"""The first two let us in; the third takes no key; nothing listens at the fourth."""


class Hosts:
    """The command with files of its own; there, below `there`, are the records of what runs."""

    def __init__(self, directory: Path) -> None:
        self.here, self.there, self.conf = directory / "here", directory / "there", directory / "conf"
        for made in (self.here, self.conf, directory / "sshd"):
            made.mkdir()
        self._base = {**os.environ, "FIRESTEEL_CONF_DIR": str(self.conf), "XDG_STATE_HOME": str(self.here)}
        environment = {"XDG_STATE_HOME": str(self.there), RUN_MARK: os.environ[RUN_MARK]}
        environment |= {name: os.environ[name] for name in ("JAVA_HOME", "PATH") if name in os.environ}
        self.ssh = SshServer(directory / "sshd", environment, hosts=[ONE, TWO], refusing=[CLOSED])
        self.configuration = {
            "env.ssh.opts": self.ssh.options,
            "cluster.work-dir": str(directory / "work"),
            "jobmanager.rpc.port": "0",
            "rest.port": "0",
            # No JVM before a job wants one.
            "taskmanager.spark.isolation": "job",
            "taskmanager.spark.spare-backends": "0",
        }

    def files(self, workers: str, masters: str = "") -> str:
        """Write them; the path of the first."""
        (self.conf / "workers").write_text(workers)
        (self.conf / "masters").unlink(missing_ok=True)
        if masters:
            (self.conf / "masters").write_text(masters)
        return str(self.conf / "workers")

    def cluster(self, *arguments: str) -> tuple[int, str, str]:
        (self.conf / "config.yaml").write_text(json.dumps(self.configuration))
        command = [sys.executable, "-m", "firesteel", "cluster", *arguments]
        done = subprocess.run(command, env=self._base, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        return done.returncode, done.stdout, done.stderr

    def records(self) -> dict[str, list[Recorded]]:
        """By role and host."""
        files = self.there.glob("firesteel/cluster/hosts/*/processes.json")
        return {file.parent.name: [Recorded(**each) for each in json.loads(file.read_text())] for file in sorted(files)}

    def leftovers(self) -> list[str]:
        """Files, here and there, beside locks and logs."""
        found = [path for root in (self.here, self.there) for path in root.rglob("*") if path.is_file()]
        return [str(path) for path in found if path.name != "lock" and path.suffix != ".log"]


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    made = Hosts(tmp_path)
    yield made
    made.cluster("stop")
    made.ssh.stop()


def test_a_cluster_on_two_hosts_from_its_start_to_its_end(hosts: Hosts) -> None:
    file = hosts.files(f"{ONE}\n\n# twice\n{TWO}\n{ONE}  # again\n", masters=f"{TWO}:0\n")
    code, out, err = hosts.cluster("start", "--hosts", file)
    assert (code, err) == (0, "")
    assert out.startswith(f"{TWO}: started jobmanager at {TWO}:")
    assert sorted(line.split(":")[0] for line in out.splitlines()[1:]) == [ONE, ONE, TWO]
    records = hosts.records()
    assert {name: len(each) for name, each in records.items()} == {
        f"jobmanager-{TWO}": 1,
        f"taskmanager-{ONE}": 2,
        f"taskmanager-{TWO}": 1,
    }
    processes = [process for each in records.values() for record in each if (process := record.process())]
    assert len(processes) == 4
    above = {parent.pid for process in processes for parent in process.parents()}
    assert hosts.ssh.pid not in above, "their ssh sessions have ended"
    rest = records[f"jobmanager-{TWO}"][0].where.rpartition(" ")[2]
    with urlopen(f"{rest}/overview") as answer:
        assert json.load(answer)["taskmanagers"] == 3
    code, _, err = hosts.cluster("start", "--hosts", file)
    assert (code, f"a cluster runs on {TWO}, {ONE} already; `firesteel cluster stop` ends it" in err) == (2, True)
    assert hosts.cluster("status")[::2] == (0, "")

    # What somebody does not know of is not started twice, and nothing of his is left.
    kept = (hosts.here / "firesteel" / "cluster" / "hosts.json").rename(hosts.conf / "kept")
    code, _, err = hosts.cluster("start", "--hosts", hosts.files(f"{TWO}\n"), "-D", f"jobmanager.rpc.address={ONE}")
    assert (code, f"{TWO}: a cluster runs here already: taskmanager" in err) == (2, True)
    assert all(process.is_running() for process in processes)
    kept.rename(hosts.here / "firesteel" / "cluster" / "hosts.json")

    killed = records[f"taskmanager-{ONE}"][0]
    os.kill(killed.pid, signal.SIGKILL)
    code, out, _ = hosts.cluster("status")
    assert code == 1
    assert [line.split(":")[0] for line in out.splitlines() if "is gone" in line] == [ONE]
    code, out, err = hosts.cluster("stop")
    assert (code, out, err) == (0, "stopped\n", "")
    assert psutil.wait_procs(processes, timeout=LIMIT_S)[1] == []
    assert hosts.leftovers() == []
    assert hosts.cluster("stop")[0] == 3


def test_hosts_that_can_not_are_named_with_what_to_do_and_nothing_is_left(hosts: Hosts) -> None:
    file = hosts.files(f"{ONE}\n{CLOSED}\n{TWO}\n{NOWHERE}\n")
    code, out, err = hosts.cluster("start", "--hosts", file)
    assert code == 3
    assert "2 of 4 hosts could not start their taskmanager" in err
    assert f"  {CLOSED}: it refuses your key: see that `ssh {CLOSED} true` needs no password" in err
    assert f"  {NOWHERE}: it can't be reached: ssh: connect to host {NOWHERE} port" in err
    assert "started jobmanager" in out
    assert {line.split(":")[0] for line in out.splitlines()[1:]} == {ONE, TWO}
    assert hosts.records() == {}
    assert hosts.leftovers() == []

    here = ("start", "--hosts", hosts.files(f"{ONE}\n"))
    code, _, err = hosts.cluster(*here, "-D", "cluster.remote-python=/no/python")
    assert (code, f"{ONE}: there is no /no/python there: install firesteel" in err) == (3, True)
    bare = os.path.realpath(sys.executable)
    code, _, err = hosts.cluster(*here, "-D", f"cluster.remote-python={bare}")
    assert (code, f"{ONE}: firesteel is not installed for {bare} there" in err) == (3, True)
    code, _, err = hosts.cluster(*here, "-D", f"taskmanager.resource-id={'x' * 300}")
    assert (code, f"{ONE}: the taskmanager has ended at once" in err, "File name too long" in err) == (3, True, True)
    assert hosts.leftovers() == []


def test_files_and_options_that_can_not_be_meant(hosts: Hosts) -> None:
    def refused(workers: str, masters: str = "", *definitions: str) -> str:
        given = [word for each in definitions for word in ("-D", each)]
        code, out, err = hosts.cluster("start", "--hosts", hosts.files(workers, masters), *given)
        assert (code, out, hosts.leftovers()) == (2, "", [])
        return err

    assert "names no host" in refused("# nobody\n")
    assert "'-oProxyCommand=x' is no host's name" in refused("-oProxyCommand=x\n")
    assert "write HOST or HOST:WEBPORT" in refused(ONE, f"{ONE}:web")
    assert "a host is named twice" in refused(ONE, f"{ONE}:1\n{ONE}:2")
    assert "2 masters need high-availability.type" in refused(ONE, f"{ONE}\n{TWO}")
    assert "worker.example can't reach a master at localhost" in refused("worker.example")
    assert "set cluster.results-dir (or cluster.work-dir) to what all share" in refused(
        f"{ONE}\n{TWO}", "", "cluster.work-dir="
    )
    assert "names one worker" in refused(f"{ONE}\n{ONE}", "", "taskmanager.resource-id=me")
    assert "env.ssh.opts: No closing quotation" in refused(ONE, "", "env.ssh.opts='")
    assert hosts.cluster("start", "--masters", str(hosts.conf / "masters"))[0] == 2
    for kind in ("filesystem", "zookeeper://127.0.0.1:9/root"):
        code, _, err = hosts.cluster("start", "--hosts", hosts.files(f"{ONE}\n"), "--ha", kind)
        assert (code, f"--ha {kind} with --hosts needs high-availability.storageDir" in err) == (2, True)


@pytest.fixture
def order() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """What ssh starts on a host, without the ssh."""
    started: list[subprocess.Popen[bytes]] = []

    def start(configuration: dict[str, str], **fields: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "firesteel.cli.clusters.onhost"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None
        started.append(process)
        said = {"verb": "start", "role": "jobmanager", "host": "me", "configuration": configuration, **fields}
        process.stdin.write(json.dumps(said).encode())
        process.stdin.close()
        return process

    yield start
    for each in started:
        each.kill()
        with each:  # waits, and closes what is open
            pass


def test_nothing_stays_on_a_host_whose_orderer_is_gone(
    order: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    configuration = {"cluster.dir": str(tmp_path), "jobmanager.rpc.port": "0", "rest.port": "0"}
    process = order(configuration)
    assert process.stdout is not None
    assert process.stdout.readline() == b"firesteel-on-host:\n"
    process.stdout.close()
    assert process.wait(LIMIT_S) == 3
    directory = tmp_path / "hosts" / "jobmanager-me"
    assert sorted(path.name for path in directory.iterdir()) == ["lock", "log"]
    (log,) = (directory / "log").iterdir()
    assert "stopping, as told by SIGTERM" in log.read_text()


def test_a_host_with_another_firesteel_is_refused(
    order: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    process = order({"cluster.dir": str(tmp_path)}, version="0.0.9")
    assert process.stdout is not None
    answer = json.loads(process.stdout.read().splitlines()[-1].partition(b":")[2])
    assert answer["code"] == 2
    assert "is installed there, but 0.0.9 here: install the same on all hosts" in answer["err"]
