"""From whatever of a journal is durable, another master brings the job to its end."""

import random
from pathlib import Path

import pytest

from firesteel.adapters.ha.disk import Disk
from firesteel.adapters.ha.joblog import JobLog
from firesteel.core.journal.records import JournalRecord
from firesteel.core.journal.storedjobs import GraphStored, RecordsAppended
from firesteel.core.leadership.grants import grants_from
from firesteel.model.ids import FencingToken
from firesteel.model.jobgraph import JobGraph, JobType
from firesteel.model.options import RESTORE_PATH, Configuration
from firesteel.testing.simulation.cores.clients import Client
from firesteel.testing.simulation.cores.cluster import Cluster
from firesteel.testing.simulation.cores.settings import draw_settings
from firesteel.testing.simulation.cores.world import World
from firesteel.testing.simulation.faults import Faults
from firesteel.testing.simulation.oracles.oracles import Oracles
from firesteel.testing.simulation.streams.outputs import Output
from firesteel.testing.simulation.streams.pipelines import uids_of
from firesteel.testing.simulation.streams.storage import SavedJob, Source
from tests.core.graphs import JOB
from tests.core.stories.jobmaster import JobMasterPlayer

STORIES = sorted((Path(__file__).parent.parent / "core" / "golden").glob("jobmaster_*.txt"))
PATIENCE_MS = 200_000
STREAMS_MS = 60_000
"""Time after which a stream that goes on is cancelled."""


def ends(player: JobMasterPlayer, records: list[JournalRecord]) -> bool:
    """Whether the job has a result after a while, in a calm world whose workers and stored results are all new."""
    world = World(0, Faults())
    cluster = Cluster(world, draw_settings(random.Random(0)))
    world.run(world.now_ms + 1_000)
    graph = cluster.graphs[JOB] = player.core.job.graph
    cluster.cancelled[JOB] = None  # In some of the stories it is.
    before = JobLog(Disk(Path("/disk"), cluster.masters.system), history_size=4, snapshot_records=1_000)
    before.claim(FencingToken(grants_from(1) + 1_000, "before"))
    before.append([GraphStored(graph), RecordsAppended(JOB, tuple(records))])
    cluster.masters.change()
    if graph.job_type is JobType.STREAMING:
        feed(cluster, graph)
        world.after(STREAMS_MS, Client(world, cluster, graph).cancel)
    world.run(world.now_ms + PATIENCE_MS)
    ended = any(result.job_id == JOB for result, _ in cluster.masters.stored().results())
    if ended:
        Oracles(cluster).at_the_end()
    return ended


def feed(cluster: Cluster, graph: JobGraph) -> None:
    """Sources with rows for the queries of a stream, and outputs of their own."""
    streams = cluster.storage.streams
    streams.pipeline_of[JOB] = JOB
    for uid in uids_of(graph):
        streams.sources[streams.output(JOB, uid)] = Source(start_ms=0, every_ms=1_000, rows=30)
        streams.outputs[streams.output(JOB, uid)] = Output()
    if saved := Configuration(graph.configuration).get_option(RESTORE_PATH):
        streams.savepoints[saved] = SavedJob(JOB, manifest=("another",))


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.stem)
def test_a_job_comes_to_its_end_after_any_durable_write(story: Path) -> None:
    player = JobMasterPlayer()
    player.play(story.read_text())
    records: list[JournalRecord] = player.journal  # type: ignore[assignment]
    for length in (0, *player.writes):
        assert ends(player, records[:length]), f"it stands still after the first {length} records"
