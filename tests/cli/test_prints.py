"""What functions print is shown to who follows their job, once, wherever they run."""

import asyncio
from typing import Any

import pytest

from firesteel.cli.following import prints
from firesteel.cli.following.prints import JobPrints, job_prints
from firesteel.client.logs import JobLog, LogLines
from firesteel.model.ids import JobID
from firesteel.model.refusals import UnknownTaskManager

JOB = JobID("0" * 32)


class Logs:
    """Files of workers, which give a few bytes at a time."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, str, int], bytes] = {}
        self.gone: set[str] = set()

    async def list_job_logs(self, job_id: JobID) -> list[JobLog]:
        return [
            JobLog(worker, f"{name}-{attempt}", len(content), 0, attempt, [name])
            for (worker, name, attempt), content in self.files.items()
        ]

    async def read_log(self, task_manager: str, name: str, offset: int = 0) -> LogLines:
        if task_manager in self.gone:
            raise UnknownTaskManager(task_manager)
        vertex, _, attempt = name.partition("-")
        content = self.files[task_manager, vertex, int(attempt)]
        part = content[offset : content.index(b"\n", offset) + 1]
        return LogLines(text=part.decode(), next_offset=offset + len(part), size=len(content))


def looked(logs: Logs, *changes: dict[tuple[str, str, int], bytes]) -> list[str]:
    shown: list[str] = []
    job = JobPrints(logs, JOB, shown.append)
    for change in changes:
        logs.files.update(change)
        asyncio.run(job.rest())
    return shown


def test_lines_of_one_attempt_are_shown_as_they_are_and_once() -> None:
    first, more = b"one\ntwo\n", b"one\ntwo\n\xc3\xa4\n"
    assert looked(Logs(), {}, {("w", "a", 0): b""}, {("w", "a", 0): first}, {("w", "a", 0): more}) == [
        "one",
        "two",
        "ä",
    ]


def test_lines_of_several_attempts_are_told_apart() -> None:
    shown = looked(Logs(), {("w", "a", 0): b"1\n"}, {("v", "b", 0): b"2\n", ("v", "a", 1): b"3\n"})
    assert shown == ["1", "==> b <==", "2", "==> a, attempt 2 <==", "3"]


def test_who_prints_too_much_is_cut_with_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prints, "SHOWN_BYTES_MAX", 4)
    content = {("w", "a", 0): b"1\n2\n3\n4\n"}
    assert looked(Logs(), content, content) == ["1", "2", f"... (the rest is in `firesteel logs {JOB}`)"]


def test_a_worker_that_has_gone_hides_the_others_from_nobody() -> None:
    logs = Logs()
    logs.gone.add("w")
    assert looked(logs, {("w", "a", 0): b"1\n", ("v", "b", 0): b"2\n"})[-1] == "2"


def test_clients_that_have_no_logs_show_none() -> None:
    def never(line: str) -> Any:
        raise AssertionError(line)

    assert job_prints(object(), JOB, never) is None
