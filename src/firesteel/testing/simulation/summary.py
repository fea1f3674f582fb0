"""What a run comes to: a summary, or a failure with its story."""

from dataclasses import dataclass

STORY_SHOWN = 60
"""Lines of the story that a failure prints."""

MISHAPS_SHOWN = 40
"""The last mishaps that a failure prints."""


class SimulationFailure(AssertionError):
    """A run broke an invariant. The text has seed, faults, cause and the last events."""

    def __init__(self, seed: int, what: str, mix: str, mishaps: list[str], story: list[str]) -> None:
        lines, last = "\n".join(story[-STORY_SHOWN:]), ", ".join(mishaps[-MISHAPS_SHOWN:])
        super().__init__(
            f"seed {seed} failed: {what}\nfaults: {mix}\n"
            f"the last of {len(mishaps)} things that went wrong: {last}\n{lines}"
        )
        self.seed, self.what, self.mix, self.mishaps, self.story = seed, what, mix, mishaps, story

    def __reduce__(self) -> tuple[type["SimulationFailure"], tuple[int, str, str, list[str], list[str]]]:
        return SimulationFailure, (self.seed, self.what, self.mix, self.mishaps, self.story)


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run came to."""

    seed: int
    events: int
    mishaps: tuple[str, ...]
    """All that went wrong, by name."""
    leader_changes: int
    """How often a new leadership of the masters began, but for the first."""
    digest: str
    """Hash of the whole story, when all of it was told."""
    story: tuple[str, ...] = ()
    """The same."""
