"""What a job is made to ask for when it is submitted."""

from collections.abc import Mapping

import msgspec

from firesteel.core.dispatcher.admission import Admission, without_labels
from firesteel.model.jobgraph import InvalidJobGraph, JobGraph
from firesteel.model.labels import Labels
from firesteel.model.options import Configuration
from firesteel.model.resources import ResourceProfile
from tests.core.graphs import job


def wanting(options: Mapping[str, str]) -> JobGraph:
    """A job of `a`, which says nothing, and of `b`, on a slot of some size and a gpu."""
    made = job("a; b")
    a, b = made.vertices
    placed = msgspec.structs.replace(b, resources=ResourceProfile(1.0, 512, ("gpu",)))
    return msgspec.structs.replace(made, vertices=(a, placed), configuration=dict(options))


def labels(graph: JobGraph) -> list[Labels]:
    return [vertex.resources.labels for vertex in graph.vertices]


def test_functions_without_labels_have_those_of_the_job_and_all_have_those_of_the_queue() -> None:
    limits = Admission(queue_labels={"etl": ("a", "gpu")})
    nothing = wanting({"job.queue": "adhoc"})
    assert limits.placed(nothing) is nothing
    assert labels(limits.placed(wanting({"execution.on": "big"}))) == [("big",), ("gpu",)]
    queued = limits.placed(wanting({"execution.on": "big", "job.queue": "etl"}))
    assert labels(queued) == [("a", "big", "gpu"), ("a", "gpu")]
    assert queued.vertices[1].resources.size == ResourceProfile(1.0, 512)
    assert limits.placed(queued) == queued


def test_what_is_refused_stays_as_it_is() -> None:
    wrong = wanting({"execution.on": "not one"})
    assert Admission().placed(wrong) is wrong
    assert isinstance(Admission().refusal(wrong, 0), InvalidJobGraph)


def test_where_a_job_runs_is_no_part_of_what_it_is() -> None:
    """A client asks again at a master whose queues have other labels."""
    queued = wanting({"job.queue": "etl"})
    here, there = Admission(queue_labels={"etl": ("a",)}).placed(queued), Admission().placed(queued)
    assert here != there
    assert without_labels(here) == without_labels(there)
    assert without_labels(here) != without_labels(wanting({}))


def test_where_spark_is_no_job_says() -> None:
    for key in ("spark.master", "spark.remote"):
        refused = Admission().refusal(wanting({key: "local[2]", "spark.sql.shuffle.partitions": "3"}), 0)
        assert f"{key}: where Spark is, workers say (taskmanager.spark.master)" in str(refused)
    given = {"spark.master": "spark://h:1", "spark.sql.shuffle.partitions": "3", "rest.port": "1"}
    assert Configuration(given).of_job() == {"spark.sql.shuffle.partitions": "3"}, "that is for a cluster of its own"
