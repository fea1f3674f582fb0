"""Applications of Spark as REST shows them."""

from firesteel.model.resources import SparkApplication
from firesteel.model.views import JobView
from firesteel.rest.schema.cluster import SparkApplicationInfo

SLOT_HERE = "an attempt at a time, in a Spark of the worker's host"
SLOT_ON_CLUSTER = (
    "an attempt at a time in the application, with a scheduler pool of its own; how many cores that has is the cluster's to"
    " say"
)


def spark_application(application: SparkApplication) -> SparkApplicationInfo:
    return SparkApplicationInfo(
        master=application.master,
        application_id=application.application,
        tracking_url=application.tracking_url,
        executors=application.executors,
    )


def applications_of_job(view: JobView) -> list[SparkApplicationInfo]:
    """Those that do work of the job now, each once."""
    found = (each.application for vertex in view.vertices for each in vertex.progress)
    newest = {(each.master, each.application): each for each in found if each is not None}
    return [spark_application(each) for each in newest.values()]
