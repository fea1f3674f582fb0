"""Streams: each row counts once, checkpoints and savepoints are whole, and no zombie advances what counts."""

from firesteel.core.effects import Event, Persisted
from firesteel.core.jobmaster.jobmaster import JobMasterCore
from firesteel.core.journal.journal import JobState
from firesteel.model.checkpoints import Checkpoint, CheckpointRetention, CheckpointStatus
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import JobType
from firesteel.model.states import JobStatus
from firesteel.testing.simulation.cores.cluster import Cluster
from firesteel.testing.simulation.cores.world import SimulatedEndpoint
from firesteel.testing.simulation.streams.directories import OFFSETS, state_of
from firesteel.testing.simulation.streams.pipelines import ending_uids, uids_of
from firesteel.testing.simulation.streams.storage import RETAINED, SavedJob

STAYS = {
    CheckpointRetention.DELETE_ON_CANCELLATION: (JobStatus.FAILED,),
    CheckpointRetention.RETAIN_ON_CANCELLATION: (JobStatus.FAILED, JobStatus.CANCELED),
    CheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS: (),
}
"""How a job has ended that leaves its last checkpoint."""


class Streams:
    """Of one cluster. Raises AssertionError that says what does not hold."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._whole: dict[str, None] = {}
        """Savepoints that were looked at, and are whole."""
        self._last_ids: dict[JobID, int] = {}
        self._checkpoints: dict[tuple[JobID, int], Checkpoint] = {}
        """Those that have ended."""
        self._saved: dict[JobID, int] = {}
        """Of each job, savepoints that were completed."""
        self._ended: dict[JobID, JobState] = {}
        """How jobs have ended."""

    def after_event(self, endpoint: SimulatedEndpoint, event: Event) -> None:
        """What has been written anywhere, and what a JobMaster has just made durable."""
        storage, core = self.cluster.storage.streams, endpoint.core
        while storage.anew:
            self._had_nothing(*storage.anew.pop())
        if len(self._whole) < len(storage.savepoints):
            for location, saved in storage.savepoints.items():
                if location not in self._whole:
                    self._is_whole(location, saved)
        if isinstance(core, JobMasterCore) and isinstance(event, Persisted):
            job_id = core.job.graph.job_id
            state = self.cluster.masters.stored().state(job_id)
            if state is not None and self.cluster.graphs[job_id].job_type is JobType.STREAMING:
                self._numbers_grow(state)
                self._what_is_offered_is_whole(state)
                self._savepoints_count(state)
                stop = state.stop.savepoint_id if state.stop is not None else ""
                if state.status.is_globally_terminal:
                    self._ended.setdefault(job_id, state)
                is_saved = any(each.savepoint_id == stop for each in state.savepoints)
                is_finished = state.status is JobStatus.FINISHED
                assert is_saved or not is_finished, f"{job_id} has finished, and there is no savepoint of where it was"

    def _had_nothing(self, job_id: JobID, uid: str) -> None:
        """A query that has begun anew, in an attempt that is not the first, is one of which nobody knows that it had run."""
        state = self.cluster.masters.stored().state(job_id)
        known = state.checkpoints.latest_completed if state is not None else None
        batches = {point.uid: point.batch for point in known.points} if known is not None else {}
        assert batches.get(uid, -1) < 0, f"{uid} of {job_id} had come to batch {batches[uid]}, and has begun anew"

    def _is_whole(self, location: str, saved: SavedJob) -> None:
        """What has the name of a savepoint is one, and can be gone on from."""
        graph = self.cluster.graphs[saved.job_id]
        is_retained = location.startswith(f"{RETAINED}/")  # then of those queries that have ever begun
        assert is_retained or sorted(saved.manifest) == sorted(uids_of(graph)), (
            f"{location} is half a savepoint: its manifest"
        )
        assert sorted(saved.manifest) == sorted(saved.queries), f"{location} is half a savepoint: a query has no files"
        for uid, query in saved.queries.items():
            missing = [file for file in query.wanted if file not in query.files]
            assert not missing, f"{location} is half a savepoint: {uid} lacks {missing}"
            read = query.files[OFFSETS, query.batch] if query.batch >= 0 else 0
            counted = state_of(query.files, query.batch)
            assert counted == read, f"{uid} in {location} has read up to {read}, and its state has counted {counted}"
        self._whole[location] = None

    def _numbers_grow(self, state: JobState) -> None:
        """Over all masters that a job has; and what has become of a checkpoint stays."""
        job_id, history = state.job_id, state.checkpoints
        before = self._last_ids.get(job_id, 0)
        assert history.last_id >= before, f"checkpoints of {job_id} had come to {before}, and have to {history.last_id}"
        self._last_ids[job_id] = history.last_id
        ids = [each.checkpoint_id for each in history.newest]
        assert ids == sorted(set(ids), reverse=True), f"checkpoints of {job_id} have numbers twice: {ids}"
        for each in history.newest:
            if each.status is not CheckpointStatus.IN_PROGRESS:
                first = self._checkpoints.setdefault((job_id, each.checkpoint_id), each)
                assert first == each, f"a checkpoint of {job_id} was {first} and is {each}"

    def _what_is_offered_is_whole(self, state: JobState) -> None:
        """A checkpoint that can be gone on from has a whole point of each query, none of which was overtaken by then."""
        retained = [each for each in state.checkpoints.retained if not each.retained]
        storage, uids = self.cluster.storage.streams, sorted(uids_of(self.cluster.graphs[state.job_id]))
        oldest = {point.uid: point.oldest_batch for each in retained[:1] for point in each.points}
        for each in retained:
            what = f"checkpoint {each.checkpoint_id} of {state.job_id}"
            assert [point.uid for point in each.points] == uids, f"{what} is offered, and has not all queries"
            for point in each.points:
                assert point.batch >= oldest[point.uid], f"{what} is offered, and {point.uid} has gone on"
                directory = storage.newest(state.job_id, point.uid)
                if point.batch >= 0 and directory is not None:
                    is_counted = str(directory.line.get(point.batch)) == point.commit_sha256
                    assert is_counted, f"{what} has a batch of {point.uid} that a zombie has committed"
        for each in retained[:1]:
            for point in each.points:
                was_whole = storage.looked.get((state.job_id, point.uid, point.commit_sha256))
                assert was_whole, f"checkpoint {each.checkpoint_id} is offered, and {point.uid} was not whole"

    def _savepoints_count(self, state: JobState) -> None:
        """A savepoint that is told holds batches that count."""
        storage = self.cluster.storage.streams
        done = len(state.savepoints)
        for record in state.savepoints[: done - self._saved.get(state.job_id, 0)]:
            saved = storage.savepoints.get(record.location)
            assert saved is not None, f"savepoint {record.location} is recorded, and is not there"
            for uid, query in saved.queries.items():
                directory = storage.newest(state.job_id, uid)
                known = directory.line if directory is not None else query.line
                assert known.get(query.batch) == query.line.get(query.batch), (
                    f"{record.location} has a batch {query.batch} of {uid} that a zombie has committed"
                )
                goes_on = state.stop is None or record.savepoint_id != state.stop.savepoint_id
                assert goes_on or directory is None or directory.last == query.batch, (
                    f"{state.job_id} ends with {record.location}, which has batch {query.batch} of {uid}, and not {directory.last}"
                )
        self._saved[state.job_id] = done

    def _what_stays(self) -> None:
        """Of jobs whose last checkpoint is to stay it does, with all that checkpoints had recorded; of others none does."""
        storage = self.cluster.storage.streams
        settings = self.cluster.settings.job_master.scheduler.checkpoints
        for job_id, state in self._ended.items():
            kept, may = state.retained, state.status in STAYS[settings.retention] and bool(settings.shared_dir)
            assert not kept or may, f"{job_id} was {state.status.value}, and leaves {kept}"
            done = (each for each in state.checkpoints.newest if each.status is CheckpointStatus.COMPLETED)
            points = next((each.points for each in done if each.points), ())
            assert kept or not (may and points), f"{job_id} was {state.status.value}, and leaves no checkpoint"
            saved = storage.savepoints.get(kept)
            if not kept or job_id in storage.vanished or job_id not in storage.begun:
                continue  # of what nobody has heard that it ran, a place is told all the same
            assert saved is not None or storage.uids_left(job_id, kept), f"what was to stay at {kept} is lost"
            for point in points if saved is not None else ():
                line = saved.queries[point.uid].line if saved is not None else {}
                is_in = point.batch < 0 or str(line.get(point.batch)) == point.commit_sha256
                assert is_in, f"{kept} has not batch {point.batch} of {point.uid}, which was in a checkpoint"

    def _ending(self) -> list[tuple[JobID, str]]:
        """Queries that end when they have read what is there, and so before what comes later."""
        jobs = [job_id for job_id in self.cluster.storage.streams.pipeline_of if job_id in self.cluster.graphs]
        return [(job_id, uid) for job_id in jobs for uid in ending_uids(self.cluster.graphs[job_id])]

    def at_the_end(self, *, is_drained: bool) -> None:
        """Readers see each row that was read once; of a stream that was drained, all there are."""
        storage = self.cluster.storage.streams
        self._what_stays()
        for name, output in storage.outputs.items():
            at = 0
            for first, last in output.counted():
                assert first == at, f"rows {min(first, at)} to {max(first, at)} of {name} count twice, or not at all"
                at = last
            twice = output.twice()
            assert not twice, f"who follows {name} finds rows under two names: {twice[0]}"
            total = storage.sources[name].rows
            may_end = any(name == storage.output(job, uid) for job, uid in self._ending())
            assert at == total or may_end or not is_drained, f"{name} was drained, and has {at} rows of {total}"
