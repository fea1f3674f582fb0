"""Outputs of a streaming attempt's queries: no two have one, and none is where whoever has branched the job does not want it."""

import os
from collections.abc import Callable, Mapping, Sequence

from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.adapters.storage.batchclaims import Start
from firesteel.model.branches import Branch
from firesteel.model.streams import HARMLESS, StreamOutput


class StreamOutputs:
    """Asked before anything is written: `real` gives a path without links."""

    def __init__(self, branch: Branch | None = None, real: Callable[[str], str] = os.path.realpath) -> None:
        self._branch, self._real = branch, real
        self.known: dict[str, StreamOutput] = {}
        """By the uid of the sink."""
        self.starts: dict[str, Sequence[Start]] = {}
        """Of directories of `fs.stream_files` and `fs.fan_out`, by the uid of the sink: to be claimed when all queries may
        start."""

    def take(self, uid: str, output: StreamOutput, starts: Sequence[Start] = ()) -> None:
        """The sink `uid` is going to write there. Raises PipelineRefused."""
        for other, known in self.known.items():
            self.refuse_one_for_two((uid, output), (other, known))
        if self._branch is not None:
            problem = self._misplaced(uid, output, self._branch)
            if problem:
                raise PipelineRefused(f"sink {uid} {problem}")
        self.known[uid] = output
        if starts:
            self.starts[uid] = starts

    @property
    def is_branch(self) -> bool:
        """Whether another job runs beside it that reads the same."""
        return self._branch is not None and not self._branch.promoted

    def check_source(self, uid: str, places: Sequence[str], options: Mapping[str, str]) -> None:
        """A source of a branch's sink `uid`, with options by lower-case names. Raises PipelineRefused."""
        cleans = options.get("cleansource", "off").lower()
        if self._branch is not None and cleans != "off":
            raise PipelineRefused(
                f"sink {uid} reads {', '.join(places)} with cleanSource={cleans}, and would take away files that job"
                f" {self._branch.of}, which it branches from, is yet to read: give the branch a source without it, by a"
                " parameter"
            )

    def refuse_one_for_two(self, one: tuple[str, StreamOutput], other: tuple[str, StreamOutput]) -> None:
        """Raises PipelineRefused where two sinks, by their uids, would write to one directory."""
        (uid, output), (its_uid, its) = one, other
        theirs = self._real_places(its) if uid != its_uid else frozenset()
        for each in output.named().values():
            if each.place and self._real(each.place) in theirs:
                raise PipelineRefused(
                    f"sinks {' and '.join(sorted((uid, its_uid)))} would both write to {each.place}, where each would take"
                    " the batches of the other for its own: name a directory for each"
                )

    def _real_places(self, output: StreamOutput) -> frozenset[str]:
        return frozenset(self._real(each.place) for each in output.named().values() if each.place)

    def _misplaced(self, uid: str, output: StreamOutput, branch: Branch) -> str:
        """Why it may not write there, or empty."""
        if branch.promoted:
            return self._astray(uid, output, branch)
        problems = (self._untold(uid, each, branch) for each in output.named().values())
        return next(filter(None, problems), "")

    def _untold(self, uid: str, output: StreamOutput, branch: Branch) -> str:
        if output.place:
            known = [each for sink in branch.outputs.values() for each in sink.named().values()]
            met = next((each for each in known if self._meet(each.place, output.place)), None)
            return (
                f"would write to {output.place}, and job {branch.of}, which it branches from, writes to {met.place}: give"
                " the branch an output of its own (--param NAME=VALUE)"
                if met is not None
                else ""
            )
        if output.kind in HARMLESS or uid in branch.moved:
            return ""
        return (
            f"writes by {output.kind}, so whether that is where job {branch.of} writes, which it branches from, can't be"
            " told: give a parameter that the sink takes another value (--param NAME=VALUE)"
        )

    def _astray(self, uid: str, output: StreamOutput, branch: Branch) -> str:
        """Of a promoted job: each directory that the other has written to goes on."""
        former, here = branch.outputs.get(uid), self._real_places(output)
        places = [each.place for each in former.named().values()] if former is not None else []
        left = next((place for place in places if place and self._real(place) not in here), "")
        if not left:
            return ""
        written = ", ".join(each.place or each.kind for each in output.named().values())
        return (
            f"would write to {written}, and is to go on in {left}, where job {branch.of} wrote: say which value of its"
            " parameters that is (firesteel promote --param NAME=VALUE)"
        )

    def _meet(self, one: str, other: str) -> bool:
        """Whether they are one directory, or one is in the other."""
        if not one:
            return False
        mine, its = (f"{self._real(each).rstrip('/')}/" for each in (one, other))
        return mine.startswith(its) or its.startswith(mine)
