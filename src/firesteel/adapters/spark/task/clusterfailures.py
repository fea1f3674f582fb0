"""Failures of a query that are its cluster's: Spark has given up after it has tried by itself."""

import re

_LOST = re.compile(r"ExecutorLostFailure \(executor (?P<id>\S+) [^)]*\)(?: Reason: (?P<why>[^\n]*))?")
_TIMES = re.compile(r"failed (?P<times>\d+) times")
_SHUT_DOWN = (
    "SparkContext was shut down",
    "Cannot call methods on a stopped SparkContext",
    "SparkContext has been shut",
)
_SESSION_GONE = ("SESSION_NOT_FOUND", "SESSION_CHANGED")
_HEAP = re.compile(r"code 52\b|OutOfMemoryError")
_KILLED = re.compile(r"code 137\b")
WHY_MAX_CHARS = 300


def told_of(text: str) -> str:
    """A sentence for what is the cluster's failure; empty for any other."""
    lost = _LOST.search(text)
    if lost is not None:
        return _of_lost_executors(text, lost)
    if any(mark in text for mark in _SHUT_DOWN):
        return "Spark's driver has stopped: its application was ended, or its Connect server"
    if any(f"INVALID_HANDLE.{mark}" in text for mark in _SESSION_GONE):
        return "the Connect server knows this attempt's session no more: it was started anew, or has closed it"
    return ""


def _of_lost_executors(text: str, lost: re.Match[str]) -> str:
    times = _TIMES.search(text)
    count = f"{times['times']} executors" if times is not None else "executors"
    why, hint = (lost["why"] or "").strip()[:WHY_MAX_CHARS].rstrip("."), ""
    if _HEAP.search(why):
        hint = "; its heap was exhausted: raise spark.executor.memory, or have tasks that are smaller"
    elif _KILLED.search(why):
        hint = "; it was killed (SIGKILL): did its machine run out of memory?"
    return f"Spark has given up: {count} were lost while they ran one task, the last, {lost['id']}, with: {why}{hint}"
