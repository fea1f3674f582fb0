"""Failures of a query that are its cluster's: Spark has given up after it has tried by itself."""

import re

_LOST = re.compile(r"ExecutorLostFailure \(executor (?P<id>\S+) [^)]*\)(?: Reason: (?P<why>[^\n]*))?")
_TIMES = re.compile(r"failed (?P<times>\d+) times")
_SHUT_DOWN = (
    "SparkContext was shut down",
    "Cannot call methods on a stopped SparkContext",
    "SparkContext has been shut",
)
_SESSION_GONE = ("SESSION_NOT_FOUND", "SESSION_CHANGED", "SESSION_CLOSED")
_OPERATION_GONE = (
    "INVALID_HANDLE.OPERATION_ABANDONED",
    "INVALID_HANDLE.OPERATION_NOT_FOUND",
    "RESPONSE_ALREADY_RECEIVED",
)
_STAGE_GIVEN_UP = re.compile(r"failed the maximum allowable number of times: (?P<times>\d+)")
_FETCH = re.compile(
    r"(?:FetchFailed(?:Exception)?|Missing an output location for shuffle|Failed to connect to|ExecutorDeadException)[^\n]*"
)
_HEAP = re.compile(r"code 52\b|OutOfMemoryError")
_KILLED = re.compile(r"code 137\b")
_BY_HTTP = re.compile(r'details = "Received http2 header with status: (?P<status>\d{3})"')
WHY_MAX_CHARS = 300


def told_of(text: str) -> str:
    """A sentence for what is the cluster's failure; empty for any other."""
    lost = _LOST.search(text)
    if lost is not None:
        return _of_lost_executors(text, lost)
    given_up = _STAGE_GIVEN_UP.search(text)
    if given_up is not None and (fetch := _FETCH.search(text, given_up.end())) is not None:
        return (
            f"Spark has given up a stage that it has run {given_up['times']} times: shuffled rows were gone each time, with"
            f" the executors that had them: {fetch[0].strip()[:WHY_MAX_CHARS].rstrip('.')}"
        )
    if any(mark in text for mark in _SHUT_DOWN):
        return "Spark's driver has stopped: its application was ended, or its Connect server"
    if any(f"INVALID_HANDLE.{mark}" in text for mark in _SESSION_GONE):
        return "the Connect server knows this attempt's session no more: it was started anew, or has closed it"
    if any(mark in text for mark in _OPERATION_GONE):
        return (
            "the Connect server has given up this attempt's query, or its answer: it could not be reached for too long"
        )
    return ""


def told_by_proxy(text: str) -> tuple[str, bool]:
    """A sentence for what something in front of the Connect server has answered in its place, and whether it would always;
    empty for any other failure."""
    found = _BY_HTTP.search(text)
    if found is None:
        return "", False
    match found["status"]:
        case "413":
            why = "takes no more of a call (HTTP status 413): have it pass any size on, as client_max_body_size 0 does in nginx"
            return f"what is in front of the Connect server {why}", True
        case "401" | "403" as status:
            return (
                f"what is in front of the Connect server does not take this worker's token (HTTP status {status})",
                False,
            )
        case status:
            return f"what is in front of the Connect server has answered in its place, with HTTP status {status}", False


def _of_lost_executors(text: str, lost: re.Match[str]) -> str:
    times = _TIMES.search(text)
    tried = f"after {times['times']} failures, of which the last was" if times is not None else "after"
    why, hint = (lost["why"] or "").strip()[:WHY_MAX_CHARS].rstrip("."), ""
    if _HEAP.search(why):
        hint = "; its heap was exhausted: raise spark.executor.memory, or have tasks that are smaller"
    elif _KILLED.search(why):
        hint = "; it was killed (SIGKILL): did its machine run out of memory?"
    return f"Spark has given up a task {tried} the loss of executor {lost['id']}, with: {why}{hint}"
