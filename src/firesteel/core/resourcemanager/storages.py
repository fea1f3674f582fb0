"""Workers read what others have stored: one that can't is of no use to them."""

from collections.abc import Iterable

from firesteel.core.slots.tracker import TrackedWorker
from firesteel.model import messages as m


def stores_elsewhere(comer: m.RegisterTaskExecutor, others: Iterable[TrackedWorker]) -> str:
    """Why a worker can't join those that are registered; empty when it can, or nobody has looked at its storage."""
    mine = comer.results
    for other in others:
        theirs = other.results
        if mine.identity and theirs.identity and mine.identity != theirs.identity:
            places = f"{mine.where}, and {other.resource_id} in {theirs.where}"
            if mine.where == theirs.where:
                places = f"{mine.where}, which is not what {other.resource_id} has by that name"
            return (
                f"worker {comer.resource_id} stores results in {places}: neither could read those of the other; set"
                " cluster.results-dir, for all workers, to a directory, a bucket or a path in HDFS that they share"
            )
    return ""
