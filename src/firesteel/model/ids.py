"""Identifiers. Every kind of id is a type of its own, so that mypy refuses a mix-up.

Ids are values, never minted at random below the runtime ring: `derived_id` turns the
things an id stands for into 32 lowercase hex digits, the form Flink's REST clients expect.
"""

import hashlib
from typing import NewType

import msgspec

JobID = NewType("JobID", str)
"""32 lowercase hex digits, chosen by the client at submission."""

JobVertexID = NewType("JobVertexID", str)
"""32 lowercase hex digits, derived from the vertex's `uid`: stable over versions of a pipeline."""

DataSetID = NewType("DataSetID", str)
"""The intermediate data set a vertex produces; 32 lowercase hex digits."""

ResourceID = NewType("ResourceID", str)
"""A TaskExecutor process, as it names itself; new with every start of the process."""

InstanceID = NewType("InstanceID", str)
"""One registration of a TaskExecutor at one ResourceManager leader."""

AllocationID = NewType("AllocationID", str)
"""One allocation of a slot to a job; 32 lowercase hex digits."""

Address = NewType("Address", str)
"""Address at which an endpoint receives messages."""

RegionIndex = NewType("RegionIndex", int)
"""Position of a pipelined region in its job's ExecutionGraph, 0-based, in topological order."""


class FencingToken(msgspec.Struct, frozen=True, order=True, array_like=True):
    """The right to act as a leader: tokens of one component are totally ordered.

    `epoch` grows with each change of leader; `leader` names the holder, so that two
    contenders that were given one epoch by a broken store still differ.
    """

    epoch: int
    leader: str


class RegionAttemptID(msgspec.Struct, frozen=True, order=True, array_like=True):
    """One attempt to run one pipelined region: what is deployed, watched and cancelled.

    `attempt` counts from 0. A subtask's Execution attempt is its region's attempt.
    """

    job_id: JobID
    region: RegionIndex
    attempt: int

    def __str__(self) -> str:
        return f"{self.job_id[:8]}/{self.region}#{self.attempt}"


class SlotID(msgspec.Struct, frozen=True, order=True, array_like=True):
    """A slot of a TaskExecutor, by its 0-based index there."""

    resource_id: ResourceID
    index: int


def derived_id(*parts: object) -> str:
    """32 lowercase hex digits that stand for `parts` (their `str`, in order)."""
    text = "\x1f".join(str(part) for part in parts)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
