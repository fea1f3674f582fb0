"""Whether a query may go on from the state of another: asked once a job, before any of its queries starts."""

from pathlib import Path
from typing import Any

from firesteel.adapters.spark import internals
from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.adapters.spark.streams.inheritance import kept
from firesteel.adapters.spark.streams.notes import fingerprint_of, note_fingerprint
from firesteel.adapters.spark.streams.plans.fingerprints import agreed, broken_rules, fingerprint
from firesteel.adapters.spark.streams.plans.places import place
from firesteel.model import options


class Continuity:
    """Of a job's queries. `savepoint` is what the job starts from, or empty; `tolerant`: another plan is taken as well."""

    def __init__(self, savepoint: str, *, tolerant: bool = False) -> None:
        self._savepoint, self._tolerant = savepoint, tolerant

    def check(self, uid: str, checkpoint: str, writer: Any) -> None:
        """Note the fingerprint of the query that `writer` would start, for savepoints of it. Raises PipelineRefused when the
        state that it is to go on from is of a plan that it does not fit."""
        home = Path(checkpoint).parent
        if fingerprint_of(home) is not None:
            return
        found = agreed(_fingerprint(writer), _fingerprint(writer))
        broken = [] if self._tolerant else broken_rules(_saved(home), found)
        if broken:
            raise PipelineRefused(
                f"sink {uid} can't go on from savepoint {self._savepoint}: {'; '.join(broken)}. Spark would go on from"
                " what is another's and give wrong results, or fail again and again: put that back, give the sink another uid to"
                f" begin without state, or say {options.IGNORE_CHANGED_PLAN.key}=true if the state fits all the same"
            )
        note_fingerprint(home, found)


def _saved(home: Path) -> str:
    """Empty where nothing is to be compared, as of a query at its beginning, which has no state."""
    query = kept(home)
    return query.fingerprint if query is not None and query.point.batch >= 0 else ""


def _fingerprint(writer: Any) -> str:
    explained, mode, zone = internals.streamed_plan(writer), internals.output_mode(writer), internals.time_zone(writer)
    return fingerprint(explained, mode, zone, [place(*read) for read in internals.streams_read(writer)])
