"""Admission of jobs: what is wrong with one that is refused before anything of it is stored."""

from dataclasses import dataclass

from firesteel.model import options
from firesteel.model.jobgraph import InvalidJobGraph, JobGraph
from firesteel.model.messages import DEFAULT_QUEUE
from firesteel.model.options import Configuration, ConfigurationError
from firesteel.model.refusals import TooManyJobs


@dataclass(frozen=True, slots=True)
class Admission:
    """The cluster's limits on submissions."""

    queues: tuple[str, ...] = ()
    """The queues there are, beside the default one; empty means that any name will do."""
    unfinished_max: int = 10_000

    def refusal(self, graph: JobGraph, unfinished: int) -> InvalidJobGraph | TooManyJobs | None:
        """Why this job is not taken while `unfinished` others have not ended; None when it is."""
        try:
            queue = Configuration(graph.configuration).get_option(options.JOB_QUEUE)
        except ConfigurationError as error:
            return InvalidJobGraph(f"the job's configuration: {error}")
        if self.queues and queue not in (*self.queues, DEFAULT_QUEUE):
            return InvalidJobGraph(
                f"there is no queue {queue!r} here, but {', '.join(self.queues)} and {DEFAULT_QUEUE}"
            )
        if unfinished >= self.unfinished_max:
            return TooManyJobs(
                f"{unfinished} jobs have not ended yet, as many as {options.MAX_UNFINISHED_JOBS.key} allows: try again later"
            )
        return None


NO_LIMITS = Admission()
