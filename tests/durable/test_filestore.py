"""The store of jobs in files answers as the one in memory does, call by call; and what it says is on the disk."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firesteel.adapters.ha.disk import Disk
from firesteel.adapters.ha.embedded import InMemoryJobStore
from firesteel.adapters.ha.filesystem import FileJobStore
from firesteel.adapters.ha.joblog import JobLog
from firesteel.model.ids import FencingToken, JobID
from firesteel.runtime.services import JobStore, StaleLeader
from tests.core.graphs import job
from tests.durable.stories import NEW, OLD, RECORDS, result_of

JOBS = ("first", "second")

Call = tuple[str, str, int]

calls = st.lists(
    st.tuples(
        st.sampled_from(
            ("load", "put_graph", "claim", "append", "put_result", "clean_up", "keep", "forget_graph", "forget")
        ),
        st.sampled_from(JOBS),
        st.integers(0, 1),
    ),
    max_size=30,
)


def store_in(directory: Path) -> FileJobStore:
    certain = asyncio.Event()
    certain.set()
    return FileJobStore(JobLog(Disk(directory), history_size=16, snapshot_records=5), certain)


async def answer(store: JobStore, call: Call, tokens: dict[str, FencingToken]) -> Any:
    """What a call returns, or that it is refused. `age` 1 makes it one of a former leader."""
    operation, name, age = call
    job_id = JobID(name)
    dispatcher, master = (FencingToken(tokens[who].epoch - age, "it") for who in ("dispatcher", name))
    made: dict[str, Callable[[], Awaitable[Any]]] = {
        "load": lambda: store.load(dispatcher),
        "put_graph": lambda: store.put_graph(job("a", name), dispatcher),
        "claim": lambda: store.claim_journal(job_id, master),
        "append": lambda: store.append(job_id, master, RECORDS),
        "put_result": lambda: store.put_result(result_of(name), dispatcher),
        "clean_up": lambda: store.clean_up(job_id, dispatcher),
        "keep": lambda: store.clean_up(job_id, dispatcher, keeps_graph=True),
        "forget_graph": lambda: store.forget_graph(job_id, dispatcher),
        "forget": lambda: store.forget_result(job_id, dispatcher),
    }
    try:
        return await made[operation]()
    except StaleLeader:
        return "refused"


@settings(max_examples=60, deadline=None)
@given(story=calls)
def test_it_answers_as_the_one_in_memory(story: list[Call], tmp_path_factory: pytest.TempPathFactory) -> None:
    """One call after the other, each by the leader of its time or the one before; the end is read by a new process."""
    directory = tmp_path_factory.mktemp("store")

    async def play() -> None:
        files, memory = store_in(directory), InMemoryJobStore()
        epoch = 1
        tokens = {who: FencingToken(epoch, "it") for who in ("dispatcher", *JOBS)}
        await files.load(tokens["dispatcher"])
        await memory.load(tokens["dispatcher"])
        for call in story:
            if call[2] == 0 and call[0] in ("load", "claim"):
                epoch += 2
                tokens["dispatcher" if call[0] == "load" else call[1]] = FencingToken(epoch, "it")
                if call[0] == "load":
                    for name in JOBS:  # its JobMasters go with a Dispatcher
                        await memory_only(memory, name, FencingToken(epoch - 1, "gone"))
            if call[0] in ("clean_up", "keep") and JobID(call[1]) not in memory._results:
                continue  # a Dispatcher cleans up after jobs that have ended
            assert await answer(files, call, tokens) == await answer(memory, call, tokens), call
        await files.close()
        last = FencingToken(epoch + 10, "new")
        assert await store_in(directory).load(last) == await memory.load(last)

    asyncio.run(play())


async def memory_only(memory: InMemoryJobStore, name: str, token: FencingToken) -> None:
    """Shut a job's leader out."""
    if JobID(name) in memory._claims:
        memory._claims[JobID(name)] = max(memory._claims[JobID(name)], token)


def test_calls_at_once_share_a_write(tmp_path: Path) -> None:
    """In their order; and nothing is lost with a caller that goes away."""

    async def play() -> None:
        store = store_in(tmp_path)
        await store.load(OLD)
        async with asyncio.TaskGroup() as group:
            for number in range(200):
                group.create_task(store.put_graph(job("a", f"job-{number}"), OLD))
            leaving = group.create_task(store.put_result(result_of("job-0"), OLD))
            await asyncio.sleep(0)
            leaving.cancel()
        await store.close()
        (journal,) = tmp_path.glob("*.journal")
        assert len(journal.read_bytes().splitlines()) < 20
        graphs, results = await store_in(tmp_path).load(NEW)
        assert [graph.job_id for graph in graphs] == [f"job-{number}" for number in range(200)]
        assert results == ((result_of("job-0"), True),)

    asyncio.run(play())


def test_a_master_that_is_overtaken_writes_nothing(tmp_path: Path) -> None:
    async def play() -> None:
        old, new = store_in(tmp_path), store_in(tmp_path)
        await old.load(OLD)
        await old.put_graph(job("a", "first"), OLD)
        await old.claim_journal(JobID("first"), OLD)
        assert [graph.job_id for graph in (await new.load(NEW))[0]] == ["first"]
        for call in (
            old.put_graph(job("a", "second"), OLD),
            old.append(JobID("first"), OLD, RECORDS),
            old.put_result(result_of("first"), OLD),
            old.load(OLD),
        ):
            with pytest.raises(StaleLeader):
                await call
        assert (await new.claim_journal(JobID("first"), NEW)).deployed == {}
        assert len((await new.load(NEW))[0]) == 1

    asyncio.run(play())
