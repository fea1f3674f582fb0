"""The states of a job: a class each, whose methods are the moves it may make.

The return type of a method is where it leads and its docstring says when; a move that a state does
not have is a type error. `job_transitions()` reads the table out of the classes.
"""

import typing
from dataclasses import dataclass
from typing import ClassVar, Union

from firesteel.model.states import JobStatus


class Unended:
    """What every state has that is no end."""

    __slots__ = ()

    def suspend(self) -> "Suspended":
        """its JobMaster does not lead it any more, or its process stops"""
        return Suspended()


@dataclass(frozen=True, slots=True)
class Created(Unended):
    """The execution graph is built; the job waits for its first slot."""

    status: ClassVar[JobStatus] = JobStatus.CREATED

    def start(self) -> "Running":
        """the first region has a slot"""
        return Running()

    def restart(self) -> "Restarting":
        """no slot came in time: one is asked for again, after a while"""
        return Restarting()

    def reconcile(self) -> "Reconciling":
        """a new JobMaster has replayed the journal of a job that was running"""
        return Reconciling()

    def cancel(self) -> "Cancelling":
        """a client cancels it"""
        return Cancelling()

    def fail(self) -> "Failing":
        """it can't be run at all"""
        return Failing()


@dataclass(frozen=True, slots=True)
class Reconciling(Unended):
    """Workers are given time to report what they still run."""

    status: ClassVar[JobStatus] = JobStatus.RECONCILING

    def resume(self) -> "Running":
        """every attempt was found, or given up"""
        return Running()

    def cancel(self) -> "Cancelling":
        """a client cancels it"""
        return Cancelling()

    def fail(self) -> "Failing":
        """an adopted attempt failed for good"""
        return Failing()


@dataclass(frozen=True, slots=True)
class Running(Unended):
    """Regions are scheduled, run, or their sinks are committed."""

    status: ClassVar[JobStatus] = JobStatus.RUNNING

    def restart(self) -> "Restarting":
        """regions failed and wait to run again"""
        return Restarting()

    def cancel(self) -> "Cancelling":
        """a client cancels it"""
        return Cancelling()

    def fail(self) -> "Failing":
        """a failure that is not to be restarted"""
        return Failing()

    def finish(self) -> "Finished":
        """all regions have finished and all sinks are committed"""
        return Finished()


@dataclass(frozen=True, slots=True)
class Restarting(Unended):
    """At least one region waits for its restart; others may run."""

    status: ClassVar[JobStatus] = JobStatus.RESTARTING

    def resume(self) -> "Running":
        """no region waits for a restart any more"""
        return Running()

    def cancel(self) -> "Cancelling":
        """a client cancels it"""
        return Cancelling()

    def fail(self) -> "Failing":
        """a failure that is not to be restarted"""
        return Failing()


@dataclass(frozen=True, slots=True)
class Failing(Unended):
    """What still runs is being cancelled; then the job has failed."""

    status: ClassVar[JobStatus] = JobStatus.FAILING

    def cancel(self) -> "Cancelling":
        """a client cancels it"""
        return Cancelling()

    def end(self) -> "Failed":
        """no attempt is left"""
        return Failed()


@dataclass(frozen=True, slots=True)
class Cancelling(Unended):
    """What still runs is being cancelled; then the job is cancelled."""

    status: ClassVar[JobStatus] = JobStatus.CANCELLING

    def end(self) -> "Canceled":
        """no attempt is left"""
        return Canceled()


@dataclass(frozen=True, slots=True)
class Finished:
    """Ended well, for good."""

    status: ClassVar[JobStatus] = JobStatus.FINISHED


@dataclass(frozen=True, slots=True)
class Canceled:
    """Cancelled, for good."""

    status: ClassVar[JobStatus] = JobStatus.CANCELED


@dataclass(frozen=True, slots=True)
class Failed:
    """Failed, for good."""

    status: ClassVar[JobStatus] = JobStatus.FAILED


@dataclass(frozen=True, slots=True)
class Suspended:
    """Over for this JobMaster only, and in no journal: what runs goes on, and another JobMaster goes on with it."""

    status: ClassVar[JobStatus] = JobStatus.SUSPENDED


JobPhase = Union[Created, Reconciling, Running, Restarting, Failing, Cancelling, Finished, Canceled, Failed, Suspended]


def recovered(status: JobStatus) -> JobPhase:
    """The phase in which a new JobMaster takes up a job of this status."""
    match status:
        case JobStatus.CREATED:
            return Created()
        case JobStatus.CANCELLING:
            return Created().cancel()
        case JobStatus.FAILING:
            return Created().fail()
        case JobStatus.FINISHED:
            return Finished()
        case JobStatus.CANCELED:
            return Canceled()
        case JobStatus.FAILED:
            return Failed()
        case _:
            return Created().reconcile()


def job_transitions() -> dict[tuple[JobStatus, JobStatus], str]:
    """(from, to) -> when, of every move the classes have."""
    table: dict[tuple[JobStatus, JobStatus], str] = {}
    for phase in typing.get_args(JobPhase):
        for name, method in {**vars(phase), **(vars(Unended) if issubclass(phase, Unended) else {})}.items():
            if not name.startswith("_") and callable(method):
                target = typing.get_type_hints(method)["return"]
                table[(phase.status, target.status)] = method.__doc__ or ""
    return table
