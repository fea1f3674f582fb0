"""Admission of jobs: what is wrong with one that is refused before anything of it is stored."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from firesteel.model import options
from firesteel.model.configuration import PLACES_OF_SPARK
from firesteel.model.jobgraph import InvalidJobGraph, JobGraph
from firesteel.model.labels import Labels
from firesteel.model.messages import DEFAULT_QUEUE
from firesteel.model.options import Configuration, ConfigurationError
from firesteel.model.refusals import TooManyJobs


@dataclass(frozen=True, slots=True)
class Admission:
    """The cluster's limits on submissions."""

    queues: tuple[str, ...] = ()
    """The queues there are, beside the default one; empty means that any name will do."""
    unfinished_max: int = 10_000
    queue_labels: Mapping[str, Labels] = field(default_factory=dict)
    """What a worker must be called to run jobs of a queue."""

    def refusal(self, graph: JobGraph, unfinished: int) -> InvalidJobGraph | TooManyJobs | None:
        """Why this job is not taken while `unfinished` others have not ended; None when it is."""
        try:
            queue = Configuration(graph.configuration).get_option(options.JOB_QUEUE)
        except ConfigurationError as error:
            return InvalidJobGraph(f"the job's configuration: {error}")
        if place := next((key for key in PLACES_OF_SPARK if key in graph.configuration), None):
            return InvalidJobGraph(
                f"the job's configuration: {place}: where Spark is, workers say ({options.SPARK_MASTER.key}), and a job can"
                f" only say by {options.EXECUTION_ON.key} what its workers are called"
            )
        if self.queues and queue not in (*self.queues, DEFAULT_QUEUE):
            return InvalidJobGraph(
                f"there is no queue {queue!r} here, but {', '.join(self.queues)} and {DEFAULT_QUEUE}"
            )
        if unfinished >= self.unfinished_max:
            return TooManyJobs(
                f"{unfinished} jobs have not ended yet, as many as {options.MAX_UNFINISHED_JOBS.key} allows: try again later"
            )
        return None

    def placed(self, graph: JobGraph) -> JobGraph:
        """The graph as it is stored: its vertices ask for the labels of the job and of its queue, too. One that `refusal`
        refuses stays as it is."""
        try:
            configuration = Configuration(graph.configuration)
            anywhere = configuration.get_option(options.EXECUTION_ON)
            always = self.queue_labels.get(configuration.get_option(options.JOB_QUEUE), ())
        except ConfigurationError:
            return graph
        return graph if not (anywhere or always) else with_labels(graph, anywhere, always)


def with_labels(graph: JobGraph, anywhere: Labels, always: Labels = ()) -> JobGraph:
    """The graph whose vertices ask for `anywhere` where they ask for no label, and all of them for `always`."""
    vertices = tuple(
        msgspec.structs.replace(each, resources=each.resources.labelled((each.resources.labels or anywhere) + always))
        for each in graph.vertices
    )
    return msgspec.structs.replace(graph, vertices=vertices)


def without_labels(graph: JobGraph) -> JobGraph:
    """The graph as it is wherever it runs."""
    vertices = tuple(msgspec.structs.replace(each, resources=each.resources.labelled(())) for each in graph.vertices)
    return msgspec.structs.replace(graph, vertices=vertices)


NO_LIMITS = Admission()
