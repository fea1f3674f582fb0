"""Branches: new versions of a streaming pipeline that run beside the job whose savepoint they started from."""

import msgspec

from firesteel.model.ids import JobID
from firesteel.model.options.streams import BRANCH
from firesteel.model.streams import StreamOutput

WireValue = str | int | float | bool


class Branch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is noted with a job that `firesteel branch` or `firesteel promote` has made."""

    of: JobID
    """The job whose savepoint it started from."""
    savepoint: str = ""
    promoted: bool = False
    """Whether it goes on in the output of that job; else it must not write there."""
    batches: dict[str, int] = {}
    """By the uid of the query: the last batch in the savepoint."""
    outputs: dict[str, StreamOutput] = {}
    """That job's, by the uid of the query."""
    moved: tuple[str, ...] = ()
    """Uids of sinks that take a parameter with another value than it has there."""
    parameters: dict[str, WireValue] = {}
    """Values that parameters of sinks have there and not here: those of the promoted job."""


def branch_text(branch: Branch) -> str:
    """The value of the option that notes it."""
    return msgspec.json.encode(branch).decode()


def branch_of(configuration: dict[str, str]) -> Branch | None:
    """What a job's configuration notes. Raises msgspec.MsgspecError for what is no such note."""
    text = configuration.get(BRANCH.key, "")
    return msgspec.json.decode(text, type=Branch) if text else None


def parent_of(configuration: dict[str, str]) -> JobID:
    """The job that it is a branch of; empty for what is none, or has been promoted."""
    branch = branch_of(configuration)
    return branch.of if branch is not None and not branch.promoted else JobID("")


class JobCopy(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """How a job that is submitted once more differs from one that runs."""

    job_id: str
    parameters: dict[str, WireValue] = {}
    """In place of the values that these have there."""
    configuration: dict[str, str] = {}
    """On top of the options that it has there."""
    dry_run: bool = False
    """Only look whether it would be taken."""
