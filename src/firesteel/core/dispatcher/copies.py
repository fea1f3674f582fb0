"""A job submitted once more, with what it is to have otherwise."""

from collections.abc import Mapping

import msgspec

from firesteel.core.dispatcher.jobentry import JobEntry
from firesteel.core.dispatcher.parametertexts import wire_of_text
from firesteel.model.branches import JobCopy, WireValue
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import InvalidJobGraph, JobGraph
from firesteel.model.refusals import UnknownJob
from firesteel.model.states import JobStatus


def job_again(jobs: Mapping[JobID, JobEntry], job_id: JobID, copy: JobCopy) -> JobGraph:
    """The graph of a known job under another id. It depends on no client's life.

    Raises UnknownJob; InvalidJobGraph for a job of which no graph is kept, and for parameters it does not take.
    """
    if job_id not in jobs:
        raise UnknownJob(f"no job {job_id} is known here")
    job = jobs[job_id]
    if job.graph is None or (job.has_ended and job.status is JobStatus.FINISHED):
        raise InvalidJobGraph(f"job {job_id} ({job.name}) {_why_not(job)}: submit its file anew")
    types = job.graph.parameter_types
    changed = {name: _typed(name, types, value) for name, value in copy.parameters.items()}
    return msgspec.structs.replace(
        job.graph,
        job_id=JobID(copy.job_id),
        parameters={**job.graph.parameters, **changed},
        configuration={**job.graph.configuration, **copy.configuration},
        client_heartbeat_timeout_ms=0,
    )


def _why_not(job: JobEntry) -> str:
    if job.status is JobStatus.FINISHED:
        return "has finished, and code is kept of jobs only that failed or were cancelled"
    return f"is {job.status.value}, and its code is not kept any more"


def _typed(name: str, types: Mapping[str, str], value: WireValue) -> WireValue:
    """The value as the graph has those of its type. Raises InvalidJobGraph."""
    if name not in types:
        raise InvalidJobGraph(f"unknown parameter {name!r} (this pipeline takes {', '.join(types) or 'none'})")
    try:
        return wire_of_text(types[name], str(value))
    except ValueError:
        raise InvalidJobGraph(f"parameter {name!r}: {value!r} is no {types[name]}") from None
