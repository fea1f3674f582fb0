"""The mix of faults of a run: each seed draws its own (swarm), and none is left in the healing phase."""

import random
from dataclasses import dataclass

MASTERS_ONLY = 0.1
"""Share of the seeds in which nothing fails but masters and their disk."""

MASTERS_FAIL = (
    "delay_ms_max",
    "local_delay_ms_max",
    "duplicate",
    "request_loss",
    "answer_loss",
    "master_change_every_ms",
    "deposed_lives_ms_max",
    "session_loss_every_ms",
    "leaderless_ms_max",
    "stall_ms_max",
    "pause_every_ms",
    "clock_offset_ms_max",
    "clock_drift",
    "persist_ms_max",
    "disk_error",
    "power_cut",
    "overtaken",
    "change_after_write",
    "task_ms_max",
    "cancel_ms_max",
    "hang",
    "resubmit",
    "attached",
    "rare",
)
"""What goes wrong in those: workers live, their connections hold, Spark fails at nothing, and nobody cancels a job."""


@dataclass(slots=True)
class Faults:
    """How likely, how often and how long things go wrong. The defaults are a calm world; 0 is never."""

    # ── the network ──────────────────────────────────────────────────────────────────────────
    delay_ms_max: int = 5
    local_delay_ms_max: int = 5
    """Delay of news that does not come over the network: of leaders, of lost connections."""
    loss: float = 0.0
    duplicate: float = 0.0
    slow: float = 0.0
    """Share of messages that take up to `slow_ms_max`, overtaken by others."""
    slow_ms_max: int = 20_000
    connection_loss_noticed: bool = True
    """Whether others are told when an endpoint is gone."""
    break_every_ms: int = 0
    """A connection breaks between two that live: both are told, what was under way is lost."""
    cut_every_ms: int = 0
    """One node, half of them, or one direction between two is cut off."""
    cut_ms_max: int = 0
    request_loss: float = 0.0
    """Share of a client's requests."""
    answer_loss: float = 0.0
    """Share of answers to a client: what it has asked for is done."""
    # ── processes and clocks ─────────────────────────────────────────────────────────────────
    worker_crash_every_ms: int = 0
    worker_stop_every_ms: int = 0
    """In order, with a goodbye."""
    worker_back_ms_max: int = 0
    partition_loss: float = 0.0
    """Chance that a worker takes its stored results with it."""
    master_change_every_ms: int = 0
    deposed_lives_ms_max: int = 0
    """A deposed master goes on for up to this long before it notices."""
    session_loss_every_ms: int = 0
    """The leader has lost its session, and leads anew in the same process."""
    leaderless_ms_max: int = 0
    """Time after the end of a leader until another one leads."""
    job_master_break_every_ms: int = 0
    stall_every_ms: int = 0
    """A process stands still: suspended, or out of memory."""
    stall_ms_max: int = 0
    pause_every_ms: int = 0
    """The leader stands still for longer than its lease, and wakes up while another one leads."""
    clock_offset_ms_max: int = 0
    clock_drift: float = 0.0
    """Clocks run faster or slower by up to this share."""
    # ── the store ────────────────────────────────────────────────────────────────────────────
    persist_ms_max: int = 5
    disk_error: float = 0.0
    """Chance that a call to the disk fails, having done a part of it or nothing."""
    power_cut: float = 0.0
    """Chance that the power goes at a call to the disk: what was not synced is lost or torn."""
    overtaken: float = 0.0
    """Chance that another master takes over at a call to the disk."""
    change_after_write: float = 0.0
    """Chance that another master leads at the very moment a write of a journal is durable."""
    # ── Spark and the user's code ────────────────────────────────────────────────────────────
    task_ms_max: int = 2_000
    cancel_ms_max: int = 500
    finish_after_cancel: float = 0.0
    task_failure: float = 0.0
    hang: float = 0.0
    """Chance that an attempt hangs for minutes."""
    backend_death: float = 0.0
    """Chance that an attempt ends with the death of the backend it shares."""
    poison: float = 0.0
    """Chance that a region kills the Spark backend it runs in, each time."""
    unreadable: float = 0.0
    """Chance that an attempt finds one of the stored results it reads broken."""
    commit_failure: float = 0.0
    # ── streams ──────────────────────────────────────────────────────────────────────────────
    zombie: float = 0.0
    """Chance that the queries of a worker that has died go on for a while."""
    zombie_ms_max: int = 30_000
    query_pause: float = 0.0
    """Chance that a query stands still at a step of making a batch visible, for up to `query_pause_ms_max`."""
    query_pause_ms_max: int = 5_000
    checkpoints_vanish: float = 0.0
    """Chance that the checkpoints of a query are gone when its next attempt begins."""
    savepoint_failure: float = 0.0
    """Chance that the storage fails while a savepoint is written."""
    # ── clients ──────────────────────────────────────────────────────────────────────────────
    cancel_job: float = 0.0
    resubmit: float = 0.0
    """Chance that a client submits its job again, or somebody else another one under its id."""
    attached: float = 0.0
    """Share of the jobs that end with their client."""
    client_gone: float = 0.0
    """Chance that such a client is gone for good: a power cut."""

    rare: bool = False
    """Whether the SITES of rare behaviour show it."""
    masters_only: bool = False
    """Nothing fails but masters and their disk."""

    def heal(self) -> None:
        """Nothing goes wrong from here on. What attempts take is no fault."""
        self._keep(("task_ms_max", "cancel_ms_max"))

    def keep_masters(self, chance: random.Random) -> None:
        """Nothing goes wrong but with masters, and something does."""
        self._keep(MASTERS_FAIL)
        self.masters_only = True
        self.stall_every_ms = chance.choice((0, 20_000))
        self.master_change_every_ms = self.master_change_every_ms or 15_000 * (not self.stall_every_ms)

    def _keep(self, names: tuple[str, ...]) -> None:
        calm = Faults()
        for name in self.__slots__:
            if name not in names:
                setattr(self, name, getattr(calm, name))


def draw(chance: random.Random) -> Faults:
    """A mix of faults: each kind is in it or not, in a strength of its own."""

    def sometimes(share: float, low: float, high: float) -> float:
        return chance.uniform(low, high) if chance.random() < share else 0.0

    def every(share: float, low_ms: int = 5_000, high_ms: int = 60_000) -> int:
        return int(sometimes(share, low_ms, high_ms))

    return Faults(
        delay_ms_max=chance.choice((1, 10, 200)),
        loss=sometimes(0.4, 0.01, 0.2),
        duplicate=sometimes(0.4, 0.01, 0.3),
        slow=sometimes(0.3, 0.01, 0.2),
        connection_loss_noticed=chance.random() < 0.7,
        break_every_ms=every(0.3),
        cut_every_ms=every(0.3),
        cut_ms_max=chance.choice((1_000, 30_000, 90_000)),
        request_loss=sometimes(0.3, 0.05, 0.5),
        answer_loss=sometimes(0.3, 0.05, 0.5),
        worker_crash_every_ms=every(0.4),
        worker_stop_every_ms=every(0.2),
        worker_back_ms_max=chance.choice((0, 5_000, 40_000)),
        partition_loss=sometimes(0.5, 0.2, 1.0),
        master_change_every_ms=every(0.4),
        deposed_lives_ms_max=chance.choice((0, 1_000, 20_000)),
        session_loss_every_ms=every(0.2),
        leaderless_ms_max=chance.choice((0, 0, 15_000)),
        job_master_break_every_ms=every(0.2, 10_000),
        stall_every_ms=every(0.2, 10_000),
        stall_ms_max=chance.choice((5_000, 30_000, 90_000)),
        pause_every_ms=every(0.2, 10_000),
        clock_offset_ms_max=chance.choice((0, 0, 20, 30_000)),
        clock_drift=sometimes(0.2, 0.0001, 0.1),
        persist_ms_max=chance.choice((0, 5, 500)),
        disk_error=sometimes(0.2, 0.001, 0.03),
        power_cut=sometimes(0.2, 0.0005, 0.004),
        overtaken=sometimes(0.2, 0.0005, 0.004),
        change_after_write=sometimes(0.2, 0.005, 0.05),
        task_ms_max=chance.choice((50, 2_000, 30_000)),
        cancel_ms_max=chance.choice((1, 500, 5_000)),
        finish_after_cancel=sometimes(0.5, 0.1, 0.5),
        task_failure=sometimes(0.4, 0.01, 0.2),
        hang=sometimes(0.2, 0.01, 0.2),
        backend_death=sometimes(0.2, 0.01, 0.1),
        poison=sometimes(0.2, 0.02, 0.3),
        unreadable=sometimes(0.3, 0.01, 0.2),
        commit_failure=sometimes(0.3, 0.1, 0.5),
        cancel_job=sometimes(0.4, 0.1, 0.5),
        resubmit=sometimes(0.3, 0.2, 0.8),
        rare=True,
        attached=sometimes(0.5, 0.2, 1.0),
        client_gone=sometimes(0.6, 0.2, 0.8),
        zombie=sometimes(0.7, 0.3, 1.0),
        zombie_ms_max=chance.choice((2_000, 30_000, 90_000)),
        query_pause=sometimes(0.5, 0.02, 0.3),
        query_pause_ms_max=chance.choice((1_000, 5_000, 30_000)),
        savepoint_failure=sometimes(0.5, 0.05, 0.5),
        checkpoints_vanish=sometimes(0.3, 0.02, 0.3),
    )
