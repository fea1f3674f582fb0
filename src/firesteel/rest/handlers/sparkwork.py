"""What Spark does for an attempt: its worker is asked when somebody looks, and nothing is kept."""

from firesteel.model.ids import RegionAttemptID, RegionIndex
from firesteel.model.inquiries import InquiryRefused, LookAtSparkWork, SparkWorkSeen
from firesteel.model.refusals import NoAnswer, UnknownTaskManager
from firesteel.rest.call import Call
from firesteel.rest.handlers.completion import require_owner
from firesteel.rest.handlers.vertices import found_attempt
from firesteel.rest.schema.spark import SparkWorkInfo


async def of_attempt(call: Call) -> SparkWorkInfo:
    """To who submitted the job or operates the cluster: plans say what data there is. All of a region is one attempt, so that
    its vertices are told the same."""
    await require_owner(call, "has Spark do")
    vertex, found = await found_attempt(call)
    if found.task_manager is None:
        return SparkWorkInfo(missing="This attempt has not been deployed.")
    attempt = RegionAttemptID(call.job_id, RegionIndex(vertex.first_region + found.subtask), found.attempt)
    try:
        answer = await call.gateway.ask_task_manager(found.task_manager, LookAtSparkWork(attempt=attempt))
    except UnknownTaskManager:
        return SparkWorkInfo(
            missing=f"The worker that it ran on, {found.task_manager}, is gone, and its Spark with it."
        )
    except NoAnswer as error:
        return SparkWorkInfo(missing=str(error))
    match answer:
        case SparkWorkSeen(work=work):
            return SparkWorkInfo(work=work)
        case InquiryRefused(reason=reason):
            return SparkWorkInfo(missing=f"{reason[0].upper()}{reason[1:]}")
        case _:
            raise AssertionError("that is no answer to it")
