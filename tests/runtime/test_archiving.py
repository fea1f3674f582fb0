"""Jobs that wait to be archived: a bounded number, of which the oldest is given up."""

import asyncio
import logging

import pytest

from firesteel.model.ids import JobID
from firesteel.runtime.archiving import ArchiveBacklog


def job_id(number: int) -> JobID:
    return JobID(f"{number:032x}")


def test_of_too_many_the_oldest_is_given_up_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    done: list[int] = []
    archived: list[int] = []

    async def story() -> None:
        backlog, works = ArchiveBacklog(2), asyncio.Event()

        async def clean_up(number: int) -> None:
            async def archive() -> None:
                await works.wait()
                archived.append(number)

            await backlog.archived(job_id(number), archive)
            done.append(number)

        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(clean_up(number))
            while len(done) < 3:
                await asyncio.sleep(0)
            works.set()

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    assert (done, archived) == ([0, 1, 2, 3, 4], [3, 4])
    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [level for level, _ in told] == ["WARNING"] * 3
    assert [text.split()[1] for _, text in told] == [job_id(number) for number in range(3)]
    assert all("2 jobs that ended after it wait for the archive" in text for _, text in told)


def test_what_archiving_raises_is_raised() -> None:
    async def fails() -> None:
        raise TimeoutError("of somebody else")

    async def story() -> None:
        backlog = ArchiveBacklog(1)
        with pytest.raises(TimeoutError, match="somebody else"):
            await backlog.archived(job_id(1), fails)

    asyncio.run(story())
