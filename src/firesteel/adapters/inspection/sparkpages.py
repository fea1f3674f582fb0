"""Pages that Spark serves on the worker's host, fetched for somebody who can't reach that."""

import asyncio
import re
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

import httpcore

from firesteel.model.ids import JobID
from firesteel.model.inquiries import SPARK_PAGE_BYTES_MAX, AnyAnswer, InquiryRefused, ReadSparkPage, SparkPage
from firesteel.model.resources import SparkApplication

ANSWER_S = 20.0
"""Time that Spark has to answer."""
_BASE_HEADER = b"X-Forwarded-Context"
"""Has Spark begin its links with what it says."""
_OF_ALL = (
    "All jobs on this worker share one Spark, whose pages show the work of all: that takes the role operate"
    " (see taskmanager.spark.isolation)."
)


async def read_page(inquiry: ReadSparkPage, applications: Sequence[SparkApplication]) -> AnyAnswer:
    """What Spark answers. Only its own pages are asked for, and only read."""
    if not inquiry.target.startswith("/") or not inquiry.target.isascii() or not inquiry.target.isprintable():
        return InquiryRefused(reason="that is no path of a page", is_missing=True)
    if _kills(inquiry.target):
        return InquiryRefused(reason="Spark's pages are only read here: nothing is killed there.", is_forbidden=True)
    application = application_of(inquiry.job_id, applications)
    if application is None:
        why = "no Spark that serves pages runs something of this job here: see taskmanager.spark.ui"
        return InquiryRefused(reason=why, is_missing=True)
    if application.is_shared and not inquiry.reads_all:
        return InquiryRefused(reason=_OF_ALL, is_forbidden=True)
    url = application.tracking_url
    headers = [(b"Host", urlsplit(url).netloc.encode()), (_BASE_HEADER, inquiry.base.encode())]
    try:
        async with (
            asyncio.timeout(ANSWER_S),
            httpcore.AsyncConnectionPool() as http,
            http.stream("GET", f"{url}{inquiry.target}", headers=headers) as answer,
        ):
            return await _page(answer, inquiry.base)
    except (TimeoutError, httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
        return InquiryRefused(reason=f"Spark does not answer at {url}: {str(error) or type(error).__name__}")


def application_of(job_id: JobID, applications: Sequence[SparkApplication]) -> SparkApplication | None:
    """The application with pages that the job uses, or that all jobs of the worker use."""
    shown = [each for each in applications if each.tracking_url]
    mine = [each for each in shown if job_id in each.jobs]
    return next(iter(mine or [each for each in shown if each.is_shared]), None)


def _kills(target: str) -> bool:
    """Whether it is one of the addresses at which Spark's pages kill jobs and stages, however it is written."""
    return "kill" in re.split(r"[/\\;?#]", unquote(target.partition("?")[0]))


async def _page(answer: httpcore.Response, base: str) -> AnyAnswer:
    body = bytearray()
    async for part in answer.aiter_stream():
        body += part
        if len(body) > SPARK_PAGE_BYTES_MAX:
            return InquiryRefused(reason=f"the page is larger than {SPARK_PAGE_BYTES_MAX >> 20} MiB")
    headers = {name.lower(): value.decode("latin-1") for name, value in answer.headers}
    return SparkPage(
        status=answer.status,
        content_type=headers.get(b"content-type", ""),
        location=_for_reader(headers.get(b"location", ""), base),
        body=bytes(body),
    )


def _for_reader(location: str, base: str) -> str:
    """Spark redirects to its own address."""
    found = urlsplit(location)
    if not location:
        return ""
    path = found.path if found.path.startswith(f"{base}/") else f"{base}{found.path}"
    return f"{path}?{found.query}" if found.query else path
