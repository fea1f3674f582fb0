"""From whatever of a journal is durable, another master brings the job to its end."""

from pathlib import Path

import pytest

from firesteel.core.journal import JournalRecord
from firesteel.model.ids import FencingToken
from firesteel.testing.simulation.cluster import Cluster, JobStore
from firesteel.testing.simulation.faults import Faults
from firesteel.testing.simulation.oracles import Oracles
from firesteel.testing.simulation.world import World
from tests.core.graphs import JOB
from tests.core.stories.jobmaster import JobMasterPlayer

STORIES = sorted((Path(__file__).parent.parent / "core" / "golden").glob("jobmaster_*.txt"))
PATIENCE_MS = 200_000


def ends(player: JobMasterPlayer, records: list[JournalRecord]) -> bool:
    """Whether the job has a result after a while, in a calm world whose workers and stored results are all new."""
    world = World(0, Faults())
    cluster = Cluster(world, workers=2)
    graph = cluster.graphs[JOB] = player.core.job.graph
    cluster.jobs[JOB] = JobStore(graph, FencingToken(0, "before"), records)
    cluster.change_master()
    world.run(world.now_ms + PATIENCE_MS)
    if JOB in cluster.results:
        Oracles(cluster).at_the_end({JOB: None})
    return JOB in cluster.results


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.stem)
def test_a_job_comes_to_its_end_after_any_durable_write(story: Path) -> None:
    player = JobMasterPlayer()
    player.play(story.read_text())
    records: list[JournalRecord] = player.journal  # type: ignore[assignment]
    for length in (0, *player.writes):
        assert ends(player, records[:length]), f"it stands still after the first {length} records"
