"""The end of a query that was taken for dead and runs on: it can plan no batch after the one that is taken over from it.

Spark plans a batch by making the file `offsets/N` of its checkpoint, and fails where there is one already. So whoever is to go
on from a checkpoint makes the next of these files itself, unless the query was faster: then that batch is taken over as it
was planned, and the one after it is made. What the query still writes to its sink is that one batch, with the rows that it
also has in the attempt that goes on.
"""

from pathlib import Path

from firesteel.adapters.spark.streams.snapshots.listing import FENCE, OFFSETS, is_fence
from firesteel.adapters.spark.streams.snapshots.points import last_committed


def fence(checkpoint: Path) -> None:
    """From here on no batch is planned there but the one after the last committed, if that is. Raises OSError."""
    (checkpoint / OFFSETS).mkdir(exist_ok=True)
    while True:
        batch = last_committed(str(checkpoint))
        following = 0 if batch is None else batch + 1
        for number in (following, following + 1):
            if _is_ours(checkpoint / OFFSETS / str(number)):
                return
        # It has planned both, and so has committed the first meanwhile.


def is_planned(checkpoint: Path, batch: int) -> bool:
    """Whether the query has planned `batch`."""
    return not is_fence(path := checkpoint / OFFSETS / str(batch)) and path.exists()


def _is_ours(path: Path) -> bool:
    """Make it, if it is not there."""
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(FENCE)
    except FileExistsError:
        return is_fence(path)
    return True
