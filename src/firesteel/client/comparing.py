"""Outputs of two streaming jobs are compared: up to where both had read the same. docs/branches.md says what holds then."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from firesteel.adapters.storage.serving import NOTHING_SET
from firesteel.client.branching import BranchRefused
from firesteel.client.comparison import Comparison, Rows, common_point, compare
from firesteel.client.http import HttpClusterClient
from firesteel.client.outputrows import rows_of
from firesteel.model.branches import Branch, branch_of
from firesteel.model.ids import JobID
from firesteel.model.streams import QuerySight
from firesteel.model.views import JobView

LOOK_S = 0.5
"""Time between two looks for a point at which both have read the same."""
NEWEST = 1 << 62


class QueryComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Of one query of two jobs."""

    uid: str
    rows: Comparison
    after: int
    """Rows of batches up to this one are of both, and not compared."""
    first_batch: int
    """The last batch of the first that was compared; -1 where both have read the same nowhere, and all was."""
    second_batch: int

    @property
    def is_settled(self) -> bool:
        """Whether both had read the same: what only one has the other will never have."""
        return self.first_batch >= 0


class Comparing:
    """Of two jobs that run. `storage`: settings by which a savepoint in a bucket is reached."""

    def __init__(
        self, client: HttpClusterClient, first: JobID, second: JobID, *, storage: Mapping[str, str] = NOTHING_SET
    ) -> None:
        self._client, self._ids, self._storage = client, (first, second), storage

    async def compare(self, key: Sequence[str] = (), uid: str = "", wait_s: float = 30.0) -> list[QueryComparison]:
        """Compare the outputs of queries that both have, or of one; waits so long for points at which both have read the same.

        Raises BranchRefused for what can't be compared, NotReadable, NoSuchKey.
        """
        if self._ids[0] == self._ids[1]:
            raise BranchRefused(f"both are job {self._ids[0]}: name two jobs")
        views = [await self._client.request_job(each) for each in self._ids]
        note = related(*views)
        sights = await self._looked(views, uid)
        loop = asyncio.get_running_loop()
        until_s = loop.time() + wait_s
        while loop.time() < until_s and any(_point(pair, note) is None for pair in sights.values()):
            await asyncio.sleep(LOOK_S)
            sights = await self._looked(views, uid)
        return [
            await asyncio.to_thread(self._compared, each, pair, note, tuple(key))
            for each, pair in sorted(sights.items())
        ]

    async def _looked(self, views: Sequence[JobView], uid: str) -> dict[str, tuple[QuerySight, QuerySight]]:
        """By uid, what can be compared. Raises BranchRefused."""
        first, second = [by_output(await self._client.look_at_queries(view.job_id)) for view in views]
        shared = [each for each in first if each in second and uid in ("", each, first[each].uid)]
        if not shared:
            mine, its = (", ".join(sorted(each)) or "none that run" for each in (first, second))
            raise BranchRefused(
                f"there is no such query in both: job {self._ids[0]} has {mine}, job {self._ids[1]} {its}"
            )
        for view, sights in zip(views, (first, second), strict=True):
            for each in shared:
                output = sights[each].output
                if output is None or not output.place:
                    kind = output.kind if output is not None else "a sink that is not known"
                    raise BranchRefused(
                        f"query {each} of job {view.job_id} ({view.name}) writes by {kind}: files can be compared, of"
                        " fs.stream_files, fs.fan_out and Spark's own file sink (--query UID names another query, UID/NAME an"
                        " output of fs.fan_out)"
                    )
        return {each: (first[each], second[each]) for each in shared}

    def _compared(
        self, uid: str, pair: tuple[QuerySight, QuerySight], note: Branch | None, key: tuple[str, ...]
    ) -> QueryComparison:
        has_updates = any(sight.output is not None and sight.output.mode.lower() == "update" for sight in pair)
        if has_updates and not key:
            raise BranchRefused(f"query {uid} writes updates: say by which columns a row is known (--key COLUMN)")
        after, newest = _parted(pair[0].uid, note), (_newest(pair[0]), _newest(pair[1]))
        point = _point(pair, note)
        if common_point(pair[0].positions, pair[1].positions) == newest:  # perhaps nothing was read since they parted
            point = newest
        savepoint = note.savepoint if note is not None else ""
        readers = [
            self._reader(sight, after, batch, savepoint if after >= 0 else "")
            for sight, batch in zip(pair, point or newest, strict=True)
        ]
        found = compare(readers[0], readers[1], key, has_updates=has_updates)
        first_batch, second_batch = point or (-1, -1)
        return QueryComparison(uid=uid, rows=found, after=after, first_batch=first_batch, second_batch=second_batch)

    def _reader(self, sight: QuerySight, after: int, up_to: int, savepoint: str) -> Rows:
        output = sight.output
        assert output is not None, "it was looked for"
        return lambda: rows_of(output, sight.uid, after, up_to, savepoint, storage=self._storage)


def by_output(sights: Iterable[QuerySight]) -> dict[str, QuerySight]:
    """Queries by uid; one that writes several outputs is there for each, as `UID/NAME`."""
    return {
        f"{sight.uid}/{name}" if name else sight.uid: msgspec.structs.replace(sight, output=output)
        for sight in sights
        for name, output in (sight.output.named() if sight.output is not None else {"": None}).items()
    }


def related(first: JobView, second: JobView) -> Branch | None:
    """The note of the one that is a branch of the other; None for jobs that are not related so."""
    for one, other in ((first, second), (second, first)):
        note = branch_of(one.configuration)
        if note is not None and not note.promoted and note.of == other.job_id:
            return note
    return None


def _point(pair: tuple[QuerySight, QuerySight], note: Branch | None) -> tuple[int, int] | None:
    """Where both have read the same, and something since they parted."""
    found = common_point(pair[0].positions, pair[1].positions)
    parted = _parted(pair[0].uid, note)
    return found if found is not None and max(found) > parted else None


def _parted(uid: str, note: Branch | None) -> int:
    batches: Mapping[str, int] = note.batches if note is not None else {}
    return batches.get(uid, -1)


def _newest(sight: QuerySight) -> int:
    return sight.positions[-1].batch if sight.positions else NEWEST
