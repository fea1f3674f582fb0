"""Whether a master that is back knows the application of a driver that has lost it. Pure.

A standalone master that recovers tells drivers at once that it is there. One that was restarted without
`spark.deploy.recoveryMode` knows of no application, tells nobody, and has executors of those it does not know ended; so
does one that has taken a driver for dead. A driver waits for it for ever.
"""

from firesteel.adapters.spark.clusters.masters import SparkMaster

RECOVERY_S = 15.0
"""Time that a master has from when it can be reached until it has told the driver."""
ELECTION_S = 180.0
"""The same where there are several: those that stand by can be reached all the time, and ZooKeeper gives up the one that
has died after a minute."""


class LostMaster:
    """One for each driver."""

    def __init__(self, master: SparkMaster) -> None:
        self._patience_s = RECOVERY_S if len(master.addresses) < 2 else ELECTION_S
        self._since_s: float | None = None

    def has_forgotten(self, *, is_lost: bool, is_reachable: bool, now_s: float) -> bool:
        """Note a look, and say whether nothing can come any more."""
        if not is_lost or not is_reachable:
            self._since_s = None
            return False
        if self._since_s is None:
            self._since_s = now_s
        return now_s - self._since_s >= self._patience_s
