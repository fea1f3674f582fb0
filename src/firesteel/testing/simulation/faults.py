"""Faults of a run: each seed draws its own mix (swarm), then none in the healing phase."""

import random
from dataclasses import dataclass, field


@dataclass(slots=True)
class Faults:
    """What may go wrong, as probabilities, rates and times. The defaults are a calm world."""

    loss: float = 0.0
    duplicate: float = 0.0
    delay_ms_max: int = 5
    slow: float = 0.0
    """Share of messages that take up to `slow_ms_max`, overtaken by others."""
    slow_ms_max: int = 20_000
    local_delay_ms_max: int = 5
    persist_ms_max: int = 5
    connection_loss_noticed: bool = True
    worker_crash_every_ms: int = 0
    master_change_every_ms: int = 0
    change_after_write: float = 0.0
    """Chance that another master leads at the very moment a write of a journal is durable."""
    deposed_lives_ms_max: int = 0
    """A deposed master goes on for up to this long before it notices."""
    job_master_break_every_ms: int = 0
    cut_every_ms: int = 0
    cut_ms_max: int = 0
    task_failure: float = 0.0
    task_ms_max: int = 2_000
    cancel_ms_max: int = 500
    finish_after_cancel: float = 0.0
    unreadable: float = 0.0
    """Chance that an attempt finds one of the stored results it reads broken."""
    partition_loss: float = 0.0
    """Chance that a worker takes its stored results with it when it crashes."""
    commit_failure: float = 0.0
    cancel_job: float = 0.0
    cuts: dict[str, int] = field(default_factory=dict)
    """Nodes that are cut off, until when."""
    stall_every_ms: int = 0
    stall_ms_max: int = 0
    stalls: dict[str, int] = field(default_factory=dict)
    """Nodes whose processes stand still, until when: suspended, or out of memory."""
    poison: float = 0.0
    """Chance that a region kills the Spark backend it runs in, each time."""

    def copies(self, chance: random.Random) -> int:
        """How often a message arrives."""
        if chance.random() < self.loss:
            return 0
        return 2 if chance.random() < self.duplicate else 1

    def delay_ms(self, chance: random.Random) -> int:
        if chance.random() < self.slow:
            return chance.randint(0, self.slow_ms_max)
        return chance.randint(0, self.delay_ms_max)

    def is_cut(self, one: str, other: str, now_ms: int) -> bool:
        return one != other and any(self.cuts.get(node, 0) > now_ms for node in (one, other))

    def heal(self) -> None:
        """Nothing goes wrong from here on."""
        calm = Faults()
        for name in self.__slots__:
            if name != "task_ms_max":
                setattr(self, name, getattr(calm, name))


def draw(chance: random.Random) -> Faults:
    """A mix of faults: each kind is in it or not, in a strength of its own."""

    def sometimes(share: float, low: float, high: float) -> float:
        return chance.uniform(low, high) if chance.random() < share else 0.0

    return Faults(
        loss=sometimes(0.5, 0.01, 0.2),
        duplicate=sometimes(0.5, 0.01, 0.3),
        delay_ms_max=chance.choice((1, 10, 200)),
        slow=sometimes(0.4, 0.01, 0.2),
        persist_ms_max=chance.choice((0, 5, 500)),
        connection_loss_noticed=chance.random() < 0.7,
        worker_crash_every_ms=int(sometimes(0.5, 5_000, 60_000)),
        master_change_every_ms=int(sometimes(0.5, 5_000, 60_000)),
        deposed_lives_ms_max=chance.choice((0, 1_000, 20_000)),
        job_master_break_every_ms=int(sometimes(0.2, 10_000, 60_000)),
        cut_every_ms=int(sometimes(0.4, 10_000, 60_000)),
        cut_ms_max=chance.choice((1_000, 30_000, 90_000)),
        task_failure=sometimes(0.5, 0.01, 0.2),
        task_ms_max=chance.choice((50, 2_000, 30_000)),
        cancel_ms_max=chance.choice((1, 500, 5_000)),
        finish_after_cancel=sometimes(0.5, 0.1, 0.5),
        partition_loss=sometimes(0.5, 0.2, 1.0),
        commit_failure=sometimes(0.3, 0.1, 0.5),
        cancel_job=sometimes(0.4, 0.1, 0.5),
        change_after_write=sometimes(0.3, 0.005, 0.05),
        unreadable=sometimes(0.4, 0.01, 0.2),
        stall_every_ms=int(sometimes(0.3, 10_000, 60_000)),
        stall_ms_max=chance.choice((5_000, 30_000, 90_000)),
        poison=sometimes(0.3, 0.02, 0.3),
    )
