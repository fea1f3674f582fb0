"""`firesteel logs -f JOB` over several workers: all are read side by side."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from firesteel.cli.following import joblogs
from firesteel.cli.following.joblogs import JobLogs
from firesteel.client.logs import JobLog, LogLines
from firesteel.model.ids import JobID
from firesteel.model.refusals import UnknownTaskManager
from firesteel.model.states import JobStatus
from firesteel.runtime.client import UnknownJob

JOB = JobID("0" * 32)


class Workers:
    """Files of workers by (worker, attempt); the worker `slow` answers once it may."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, int], str] = {}
        self.gone: set[str] = set()
        self.may_answer = asyncio.Event()
        self.status = JobStatus.RUNNING
        self.looks = 0

    async def request_job(self, job_id: JobID) -> Any:
        self.looks += 1
        return SimpleNamespace(status=self.status)

    async def list_job_logs(self, job_id: JobID) -> list[JobLog]:
        return [
            JobLog(worker, f"{attempt}", len(text), 0, attempt, ["v"]) for (worker, attempt), text in self.files.items()
        ]

    async def read_log(self, worker: str, name: str, offset: int = 0) -> LogLines:
        if worker in self.gone:
            raise UnknownJob(worker)
        if worker == "slow":
            await self.may_answer.wait()
        text = self.files[worker, int(name)][offset : offset + 4]
        return LogLines(text=text, next_offset=offset + len(text), size=len(self.files[worker, int(name)]))

    async def shown(self, capsys: pytest.CaptureFixture[str], text: str) -> None:
        """Wait until it is shown."""
        out = ""
        async with asyncio.timeout(300):
            while text not in out:
                await asyncio.sleep(0.001)
                out += capsys.readouterr().out


def test_a_worker_that_does_not_answer_holds_up_nobody_else(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joblogs, "LOOK_S", 0.001)

    async def story() -> None:
        workers = Workers()
        workers.files = {("slow", 0): "slow\n", ("gone", 0): "gone\n", ("w", 0): "one\n"}
        workers.gone = {"gone"}
        following = asyncio.ensure_future(JobLogs(workers, JOB).follow())  # type: ignore[arg-type]
        await workers.shown(capsys, "one\n")
        workers.files["w", 0] += "two\n"
        await workers.shown(capsys, "two\n")
        workers.files["w", 0] = "x\n"  # it was too long
        await workers.shown(capsys, "x\n")
        workers.may_answer.set()
        await workers.shown(capsys, "slow\n")
        workers.status = JobStatus.FINISHED
        await following
        assert capsys.readouterr().out == ""

    asyncio.run(story())


def test_each_attempts_lines_are_under_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    workers = Workers()
    workers.files = {("w", 0): "one\ntwo\n", ("v", 1): "three\n"}
    asyncio.run(JobLogs(workers, JOB).show())  # type: ignore[arg-type]
    out, err = capsys.readouterr()
    assert out == "one\ntwo\nthree\n"
    assert err == "==> v (region 0, attempt 1, 8 bytes) on w <==\n==> v (region 0, attempt 2, 6 bytes) on v <==\n"


def test_what_is_wrong_with_the_job_is_told_as_it_is() -> None:
    workers = Workers()

    async def refuse(job_id: JobID) -> Any:
        raise UnknownTaskManager(job_id)

    workers.request_job = refuse  # type: ignore[method-assign]
    with pytest.raises(UnknownTaskManager):
        asyncio.run(JobLogs(workers, JOB).follow())  # type: ignore[arg-type]
