"""The processes of a cluster on this host: started in the background, written down, found again, ended.

A process is known by its id and the time of its start, so that another one which has got the id of a
dead one is never taken for it.
"""

import contextlib
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import psutil

from firesteel.adapters.inspection.rotation import open_for_appending
from firesteel.adapters.storage.flocks import take_lock
from firesteel.cli.exits import UNREACHABLE, CommandError
from firesteel.client.finding import PROCESSES_FILE, cluster_directory
from firesteel.model import options
from firesteel.model.options import Configuration
from firesteel.model.stored import UNREADABLE, StoredRecord

START_LIMIT_S = 60.0
"""A process must say within this time that it serves."""
TRIAL_LIMIT_S = 600.0
"""Further time for a worker that tries its Spark first, for which jars may have to be fetched."""

CLUSTER_VARIABLE = "FIRESTEEL_CLUSTER"
"""Environment variable of all processes of a cluster, and of those that they start: its directory."""

STOP_GRACE_S = 5.0
"""Time beyond the limits that the processes have for their own end."""

QUIET_S = 5.0
"""Who waits for an end is told after this time for what."""

HELPERS_LIMIT_S = 30.0
"""What workers leave, a JVM that makes the archive of Spark's classes once per installation, has this long for its end."""

LOG_VARIABLE = "FIRESTEEL_LOG"
"""Environment variable of such a process alone: the file that is its standard output and error, which it keeps short."""

LOOK_S = 0.05
LOG_LINES_SHOWN = 10
LOGS_KEPT = 20
"""Logs of each role that stay of processes that are on record no more."""

ROLES = ("jobmanager", "taskmanager")


class Recorded(StoredRecord, frozen=True, kw_only=True):
    """A process that was started in the background."""

    role: str
    """`jobmanager` or `taskmanager`; or `kept cluster`, which is both."""
    pid: int
    started: float
    """Time of its start as the system says it, in seconds since the epoch."""
    log: str
    where: str = ""
    """Line that it said when it served."""
    definitions: tuple[str, ...] = ()
    """Definitions that it was started with."""

    def process(self) -> psutil.Process | None:
        """The process, if it runs."""
        with contextlib.suppress(psutil.NoSuchProcess):
            found = psutil.Process(self.pid)
            if found.create_time() == self.started and found.status() != psutil.STATUS_ZOMBIE:
                return found
        return None


class ClusterDirectory:
    """The directory of this host's cluster, with its records, logs and work files."""

    def __init__(self, config: Configuration, part: str = "") -> None:
        """`part` names a directory below: hosts that are started over ssh may share one file system."""
        base = cluster_directory(config)
        self.path = base / part
        self.logs, self.work, self.conf = self.path / "log", self.path / "work", self.path / "conf"
        self.jobs = self.path / "jobs"
        """What outlives its masters, unless the configuration says where that is."""
        self._records = self.path / PROCESSES_FILE

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock it for one command. Raises CommandError when another one is under way, or nothing can be written."""
        with contextlib.ExitStack() as held:
            try:
                self.logs.mkdir(parents=True, exist_ok=True)
                is_ours = take_lock(held.enter_context(open(self.path / "lock", "w")))
            except OSError as error:
                raise CommandError(f"{self.path} can't be used: {error}; set cluster.dir", UNREACHABLE) from None
            if not is_ours:
                raise CommandError(f"another `firesteel cluster start` or `stop` works in {self.path}", UNREACHABLE)
            yield

    def read(self) -> list[Recorded]:
        """Records of what was started and not stopped; some of it may be gone."""
        try:
            return msgspec.json.decode(self._records.read_bytes(), type=list[Recorded])
        except FileNotFoundError:
            return []
        except (OSError, *UNREADABLE) as error:
            text = f"{self._records} can't be read ({error}); end the processes by hand and delete it"
            raise CommandError(text, UNREACHABLE) from None

    def write(self, records: Sequence[Recorded]) -> None:
        if not records:
            self._records.unlink(missing_ok=True)
            return
        new = self._records.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(list(records)))
        os.replace(new, self._records)

    def prune_logs(self) -> None:
        """Remove the oldest logs of each role, but none of a process that is on record: it may be quiet, and still write there."""
        of_records = tuple(f"{Path(record.log).stem}." for record in self.read())
        for role in ROLES:
            old = [path for path in self.logs.glob(f"{role}*.log") if not path.name.startswith(of_records)]
            for path in sorted(old, key=lambda path: path.stat().st_mtime)[:-LOGS_KEPT]:
                path.unlink(missing_ok=True)

    def new_log(self, name: str) -> Path:
        """A file for a process's log, which is no other's: several of one name may start within a second."""
        begin = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
        log = self.logs / f"{begin}.log"
        for number in itertools.count(2):
            try:
                log.touch(exist_ok=False)
                break
            except FileExistsError:
                log = self.logs / f"{begin}-{number}.log"
        return log


def start_process(directory: ClusterDirectory, role: str, name: str, definitions: Sequence[str]) -> Recorded:
    """Start `firesteel ROLE` in the background, in a session of its own."""
    log = directory.new_log(name)
    command = [sys.executable, "-m", "firesteel", role]
    for definition in definitions:
        command += ["-D", definition]
    marked = {**os.environ, CLUSTER_VARIABLE: str(directory.path), LOG_VARIABLE: str(log)}
    with open_for_appending(log) as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=marked,
            start_new_session=True,
        )
    return Recorded(
        role=role,
        pid=child.pid,
        started=psutil.Process(child.pid).create_time(),
        log=str(log),
        definitions=tuple(definitions),
    )


def start_limit_s(config: Configuration) -> float:
    """Time in which each process must say that it serves."""
    tries_spark = config.get_option(options.RESULTS_DIR) or config.get_option(options.SPARK_MASTER)
    return START_LIMIT_S + TRIAL_LIMIT_S if tries_spark else START_LIMIT_S


def until_serving(record: Recorded, limit_s: float) -> Recorded:
    """Wait until the process says where it serves. Raises CommandError with the end of its log when it does not."""
    mark = f"started {record.role} "
    until_s = time.monotonic() + limit_s
    while time.monotonic() < until_s:
        lines = log_lines(record)
        where = next((line.removeprefix(mark) for line in lines if line.startswith(mark)), "")
        if where:
            return msgspec.structs.replace(record, where=where)
        if record.process() is None:
            last = "\n".join(lines[-LOG_LINES_SHOWN:])
            raise CommandError(f"the {record.role} has ended at once; its log {record.log} says:\n{last}", UNREACHABLE)
        time.sleep(LOOK_S)
    raise CommandError(f"the {record.role} has not come up within {limit_s:g} s; see {record.log}", UNREACHABLE)


def stop_limit_s(config: Configuration) -> float:
    """Time that processes may take to end by themselves."""
    return 3 * config.get_option(options.SHUTDOWN_TIMEOUT) / 1000 + STOP_GRACE_S


def end_processes(
    records: Sequence[Recorded], limit_s: float, on_wait: Callable[[Recorded], None] = lambda record: None
) -> list[Recorded]:
    """Ask all to end and wait; those that do not are killed with what they started. Returns these. `on_wait` hears of each that
    takes longer than QUIET_S."""
    running = {record: found for record in records if (found := record.process()) is not None}
    for found in running.values():
        with contextlib.suppress(psutil.NoSuchProcess):
            found.terminate()
    quiet_s = min(QUIET_S, limit_s)
    _, slow = psutil.wait_procs(list(running.values()), timeout=quiet_s)
    for record, found in running.items():
        if found in slow:
            on_wait(record)
    _, stubborn = psutil.wait_procs(slow, timeout=limit_s - quiet_s)
    for found in stubborn:
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
            children = found.children(recursive=True)
            found.kill()
            for child in children:
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
    psutil.wait_procs(stubborn, timeout=limit_s)
    return [record for record, found in running.items() if found in stubborn]


def end_helpers(
    directory: ClusterDirectory, limit_s: float, on_wait: Callable[[psutil.Process], None] = lambda process: None
) -> None:
    """End what the cluster's processes have started and left behind, once it had that time to end by itself. `on_wait` as in
    `end_processes`."""
    helpers = [each for each in psutil.process_iter() if _is_of(each, directory)]
    quiet_s = min(QUIET_S, limit_s)
    _, slow = psutil.wait_procs(helpers, timeout=quiet_s)
    for helper in slow:
        on_wait(helper)
    _, stubborn = psutil.wait_procs(slow, timeout=limit_s - quiet_s)
    for helper in stubborn:
        with contextlib.suppress(psutil.NoSuchProcess):
            helper.kill()
    psutil.wait_procs(stubborn, timeout=limit_s)


def _is_of(process: psutil.Process, directory: ClusterDirectory) -> bool:
    with contextlib.suppress(psutil.Error, OSError):
        return process.pid != os.getpid() and process.environ().get(CLUSTER_VARIABLE) == str(directory.path)
    return False


def log_lines(record: Recorded) -> list[str]:
    """The lines that it has logged until now."""
    try:
        return Path(record.log).read_text(errors="replace").splitlines()
    except OSError:
        return []
