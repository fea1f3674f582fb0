"""Subtasks of a large vertex are looked at a few at a time, and those that nobody asks for are not looked at."""

from pathlib import Path
from typing import Any

import pytest

from firesteel.assembly.client import MasterClient
from firesteel.model.ids import JobID
from firesteel.model.views import SubtaskView, VertexView
from firesteel.rest import subtasks
from firesteel.rest.handlers import watching
from firesteel.testing.backend import TaskScript
from tests.rest.cluster import graph, rest_cluster
from tests.rest.conftest import Do

LINES = graph("lines*7 => counts*3", "lines")
VERTEX = f"/jobs/{LINES.job_id}/vertices/{LINES.vertices[0].id}"
PATHS = (
    VERTEX,
    f"{VERTEX}/subtasktimes",
    f"{VERTEX}/taskmanagers",
    f"{VERTEX}/subtasks/accumulators",
    f"{VERTEX}/metrics?get=numRecordsIn,sparkTasks",
    f"{VERTEX}/subtasks/metrics?get=sparkTasks&subtasks=1-3,6",
    f"/jobs/{LINES.job_id}/attempts",
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[range]:
    """The indices that were asked for."""
    found: list[range] = []
    real = MasterClient.request_subtasks

    async def noted(self: MasterClient, job_id: JobID, vertex: VertexView, chosen: range) -> tuple[SubtaskView, ...]:
        found.append(chosen)
        return await real(self, job_id, vertex, chosen)

    monkeypatch.setattr(MasterClient, "request_subtasks", noted)
    return found


def without_moment(answer: Any) -> Any:
    if isinstance(answer, dict):
        answer.pop("now", None)
    return answer


def test_answers_are_the_same_however_few_are_looked_at_in_a_turn(
    do: Do, script: TaskScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path, script=script) as rest:
            await rest.submit(LINES)
            await rest.finish(LINES.job_id)
            whole = [without_moment(await rest.get(path)) for path in PATHS]
            monkeypatch.setattr(subtasks, "SUBTASKS_A_TURN", 2)
            assert [without_moment(await rest.get(path)) for path in PATHS] == whole
            assert [each["subtask"] for each in whole[0]["subtasks"]] == list(range(7))

    do(story())


def test_no_more_are_looked_at_than_are_wanted(
    do: Do, script: TaskScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[range]
) -> None:
    script.hold("lines")
    monkeypatch.setattr(subtasks, "SUBTASKS_A_TURN", 2)
    monkeypatch.setattr(watching, "ATTEMPTS_MAX", 3)

    async def story() -> None:
        async with rest_cluster(tmp_path, script=script) as rest:
            await rest.submit(LINES)
            for path, wanted in {
                f"{VERTEX}/subtasks/5": [range(5, 6)],
                f"{VERTEX}/subtasks/6/metrics": [range(6, 7)],
                f"{VERTEX}/subtasks/metrics?subtasks=1-2,5-1000000": [range(1, 3), range(5, 7)],
            }.items():
                asked.clear()
                await rest.get(path)
                assert asked == wanted, path
            asked.clear()
            answer = await rest.get(f"/jobs/{LINES.job_id}/attempts")
            assert asked == [range(2), range(2, 4)]
            assert (len(answer["attempts"]), answer["truncated"]) == (3, True)
            script.release("lines")
            await rest.finish(LINES.job_id)

    do(story())
