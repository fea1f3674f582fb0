"""Whose pages of Spark's a worker reads, and which it never does. Nothing listens here."""

import asyncio

import pytest

from firesteel.adapters.inspection.sparkpages import application_of, read_page
from firesteel.model.ids import JobID
from firesteel.model.inquiries import InquiryRefused, ReadSparkPage
from firesteel.model.resources import LOCAL_SPARK, SparkApplication

MINE, OTHER = JobID("mine"), JobID("other")


def application(url: str, *jobs: JobID, is_shared: bool = False) -> SparkApplication:
    return SparkApplication(LOCAL_SPARK, tracking_url=url, jobs=jobs, is_shared=is_shared)


@pytest.mark.parametrize(
    ("applications", "found"),
    [
        ([], ""),
        ([application("other", OTHER)], ""),
        ([application("spare")], ""),
        ([application("", MINE)], ""),
        ([application("shared", OTHER, is_shared=True)], "shared"),
        ([application("shared", MINE, is_shared=True), application("", MINE)], "shared"),
        ([application("shared", is_shared=True), application("own", MINE)], "own"),
        ([application("other", OTHER), application("own", MINE)], "own"),
    ],
)
def test_pages_are_of_what_is_the_jobs_or_everybodys(applications: list[SparkApplication], found: str) -> None:
    chosen = application_of(MINE, applications)
    assert (chosen.tracking_url if chosen is not None else "") == found


def refusal(target: str, *, reads_all: bool = True) -> InquiryRefused:
    asked = ReadSparkPage(job_id=MINE, target=target, base="/base", reads_all=reads_all)
    answer = asyncio.run(read_page(asked, [application("http://127.0.0.1:1", MINE, is_shared=True)]))
    assert isinstance(answer, InquiryRefused)
    return answer


@pytest.mark.parametrize(
    "target",
    [
        "/jobs/job/kill/?id=1",
        "/jobs/job/kill?id=1",
        "/stages/stage/kill",
        "/stages/stage/%6bill/?id=1",
        "/stages//stage//kill;a=b/?id=1",
        "/stages/stage/kill#/?id=1",
        "/stages%2Fstage%2Fkill",
    ],
)
def test_no_page_that_kills_is_read(target: str) -> None:
    answer = refusal(target)
    assert answer.is_forbidden
    assert "killed" in answer.reason


def test_shared_pages_are_for_who_may_read_all() -> None:
    answer = refusal("/jobs/", reads_all=False)
    assert answer.is_forbidden
    assert "taskmanager.spark.isolation" in answer.reason
    for target in ("/jobs/", "/sql/?text=kill", "/jobs/skill/"):
        assert "does not answer" in refusal(target).reason, "it is asked"


def test_what_is_no_path() -> None:
    for target in ("jobs", "/\n", "/\u00e4"):
        assert refusal(target).is_missing
