"""What holds for every test: no process left behind, no ERROR logged, no randomness, golden files."""

import logging
import os
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import psutil
import pytest

CHILD_GRACE_S = 300.0
"""A child process that was told to end may take this long to be gone."""

RUN_MARK = "FIRESTEEL_TEST_RUN"
"""Environment variable that every process started by this run inherits."""

WATCHED_LOGGERS = ("firesteel", "asyncio")

_BUSY = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
"""How long examples take says how busy the machine is."""
hypothesis.settings.register_profile("ci", _BUSY, derandomize=True, database=None, print_blob=True)
hypothesis.settings.register_profile("thorough", _BUSY, max_examples=2_000, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write golden and ratchet files instead of comparing")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "spark: starts a Spark JVM")
    config.addinivalue_line("markers", "streams: streaming queries of a real Spark, by `make test-streams`")
    config.addinivalue_line("markers", "clusters: Spark's own masters and servers, by `make test-clusters`")
    config.addinivalue_line("markers", "expects_errors: this test provokes lines at level ERROR")
    os.environ.setdefault(RUN_MARK, uuid.uuid4().hex)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Who runs what, with `--dist loadfile`."""
    if config.getoption("dist") != "loadfile":
        return None
    from tests.sharing import SharedJvms  # xdist is there, since it asks

    return SharedJvms(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Cheap tests first: a mistake shows in seconds. Where processes share the work (`-n`), those with a JVM: what takes
    minutes must not begin when all else is done."""
    shared = hasattr(config, "workerinput")
    items.sort(key=lambda item: (item.get_closest_marker("spark") is None) is shared)


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written (`--rewrite`)."""
    return bool(request.config.getoption("--rewrite"))


@pytest.fixture
def golden(request: pytest.FixtureRequest, rewrite: bool) -> Callable[[str, str], None]:
    """`golden(name, text)` compares with the file of that name in `golden/` beside the test."""

    def compare(name: str, text: str) -> None:
        path = Path(str(request.path)).parent / "golden" / name
        if rewrite:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"no golden file {name}: run with --rewrite, then read it"
        assert text == path.read_text(), f"differs from golden/{name}: if that is meant, run with --rewrite"

    return compare


@pytest.fixture(autouse=True)
def no_child_left() -> Iterator[None]:
    """Fails a test that leaves a child process behind. Those of wider fixtures are older than the test."""
    before = child_pids()
    yield
    deadline = time.monotonic() + CHILD_GRACE_S
    while (left := living(child_pids() - before)) and time.monotonic() < deadline:
        time.sleep(0.02)
    if left:
        pytest.fail(f"child processes left behind: {'; '.join(map(described, left))}", pytrace=False)


class RecordKeeper(logging.Handler):
    """Keeps what is logged at its level and above."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture(autouse=True)
def no_error_logged(request: pytest.FixtureRequest) -> Iterator[None]:
    """An ERROR line means that a person must look; so it fails a test that does not expect it."""
    handler = RecordKeeper(logging.ERROR)
    for name in WATCHED_LOGGERS:
        logging.getLogger(name).addHandler(handler)
    yield
    for name in WATCHED_LOGGERS:
        logging.getLogger(name).removeHandler(handler)
    if handler.records and request.node.get_closest_marker("expects_errors") is None:
        lines = [f"{record.name}: {record.getMessage()}" for record in handler.records]
        pytest.fail("logged at level ERROR:\n" + "\n".join(lines), pytrace=False)


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """A command that runs in the process of the tests sends the log elsewhere, or nowhere: not that of the tests after it."""
    logger = logging.getLogger("firesteel")
    handlers, logger.propagate = list(logger.handlers), True
    logger.setLevel(logging.NOTSET)
    yield
    logging.disable(logging.NOTSET)
    for handler in logger.handlers[:]:
        if handler not in handlers:
            logger.removeHandler(handler)
            handler.close()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails the run when a process that it started, at any depth, has outlived it."""
    if hasattr(session.config, "workerinput"):
        return
    deadline = time.monotonic() + CHILD_GRACE_S
    while (left := marked_pids()) and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid in left:
        print(f"\nleft behind by this run: {described(pid)}")
    if left and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def child_pids() -> set[int]:
    """Direct children of this process; cheap enough to ask before and after each test."""
    tasks = Path("/proc/self/task")
    if not tasks.exists():
        return {child.pid for child in psutil.Process().children()}
    return {int(pid) for task in tasks.iterdir() for pid in read_children(task)}


def read_children(task: Path) -> list[str]:
    """The pids in one thread's `children` file; a thread that has ended has none."""
    try:
        return (task / "children").read_text().split()
    except OSError:
        return []


def living(pids: set[int]) -> list[int]:
    """Those that run; a zombie has ended and only waits to be asked."""
    return [pid for pid in sorted(pids) if is_living(pid)]


def is_living(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def marked_pids() -> list[int]:
    """Living processes, other than this one and its parents, that carry this run's mark."""
    mark = os.environ[RUN_MARK]
    own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    return [process.pid for process in psutil.process_iter() if process.pid not in own and carries(process, mark)]


def carries(process: psutil.Process, mark: str) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(RUN_MARK) == mark
    except (psutil.Error, OSError):
        return False


def described(pid: int) -> str:
    """Pid and the head of the command line."""
    try:
        return f"{pid} {' '.join(psutil.Process(pid).cmdline())[:200]}"
    except psutil.NoSuchProcess:
        return f"{pid} (gone)"
