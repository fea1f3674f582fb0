"""Golden story scripts: events in, effects out, as text. `--rewrite` writes the effects anew."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.core.stories.dispatcher import DispatcherPlayer
from tests.core.stories.jobmaster import JobMasterPlayer
from tests.core.stories.jobrelease import JobReleasePlayer
from tests.core.stories.player import Player
from tests.core.stories.resourcemanager import ResourceManagerPlayer
from tests.core.stories.taskexecutor import TaskExecutorPlayer

PLAYERS: dict[str, type[Player]] = {
    "dispatcher": DispatcherPlayer,
    "jobmaster": JobMasterPlayer,
    "jobrelease": JobReleasePlayer,
    "resourcemanager": ResourceManagerPlayer,
    "taskexecutor": TaskExecutorPlayer,
}
SCRIPTS = sorted((Path(__file__).parent / "golden").glob("*.txt"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_story(script: Path, golden: Callable[[str, str], None]) -> None:
    player = PLAYERS[script.stem.partition("_")[0]]()
    golden(script.name, player.play(script.read_text()))
