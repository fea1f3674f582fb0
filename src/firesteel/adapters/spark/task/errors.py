"""Failures told to a person: a short cause, the user's function, the line in the user's code."""

import os
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from firesteel.adapters.spark.exchange.resultfiles import PartitionLost, ResultsUnreachable
from firesteel.adapters.spark.refusals import (
    NeedsAllRows,
    PipelineRefused,
    QueryStopped,
    SettingsRefused,
    SinkRefused,
    SourceSilent,
    UserError,
)
from firesteel.adapters.spark.task import clusterfailures, kafkafailures
from firesteel.adapters.spark.task.plan import RegionPlan, line_range
from firesteel.adapters.spark.task.recoverability import is_settled, no_retry_mends
from firesteel.adapters.storage.errors import TargetRefused
from firesteel.adapters.storage.s3answers import told_by_hadoop
from firesteel.adapters.storage.schemes import missing_jars, missing_scheme
from firesteel.model.failures import FailureInfo, FailureKind

MAX_MESSAGE_CHARS = 2_000
MAX_TRACE_CHARS = 64 * 1024
MAX_CAUSES = 20
"""Links of an exception's chain that are looked at."""

_WORKER_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_RAISED = re.compile(r"(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*)(?::|$)")
"""The class in the last line of a traceback."""
_CALL_SITE = re.compile(r"(?P<file>\S.*?):(?P<line>\d+)\s*$")
_ENVIRONMENT_MARKS = ("UNAVAILABLE", "Connection refused", "Socket closed", "RETRIES_EXCEEDED", "SESSION_CLOSED")
_DISK_FULL = ("No space left on device", "Disk quota exceeded")
_NO_PATH = "PATH_NOT_FOUND"
_STORED_READ_FAILED = ("FAILED_READ_FILE", "PATH_NOT_FOUND", "CANNOT_READ_FILE_FOOTER")


ExplainPath = Callable[[str], tuple[str, Sequence[tuple[str, int]]] | None]
"""Explains a message that names a path: where it was looked for (or nothing), and the lines that have given it."""


def describe(
    error: BaseException,
    plan: RegionPlan,
    code: Sequence[str],
    explain_path: ExplainPath = lambda message: None,
    *,
    uri_of: Callable[[str], str] = lambda scheme: "",
) -> FailureInfo:
    """The failure of an attempt whose plan came as far as `plan.active`. `uri_of` gives the URI of a scheme that the user's
    code has given Spark to read."""
    from pyspark.errors import PySparkException

    text, trace = text_of(error), trace_of(error)
    locate = _Locator(plan, code)
    if isinstance(error, PartitionLost):
        return FailureInfo(kind=FailureKind.PARTITION, message=text, partitions=(error.location,), trace=trace)
    if isinstance(error, SettingsRefused) and error.__cause__ is not None:
        failure = describe(error.__cause__, plan, code, explain_path, uri_of=uri_of)
        return msgspec.structs.replace(failure, vertex="", location="")
    if isinstance(error, (ResultsUnreachable, QueryStopped)):
        return FailureInfo(kind=FailureKind.ENVIRONMENT, message=text, exception=_raised(error), trace=trace)
    sentence, is_hopeless = clusterfailures.told_by_proxy(text)
    if sentence:
        kind = FailureKind.NON_RECOVERABLE if is_hopeless else FailureKind.ENVIRONMENT
        vertex, location = locate.from_traceback(error)
        return FailureInfo(kind=kind, message=sentence, vertex=vertex, location=location, trace=trace)
    if isinstance(error, PySparkException):
        failure = _spark_failure(error, plan, locate, trace)
        if scheme := missing_scheme(text):
            advice = missing_jars(scheme, uri_of(scheme))
            return msgspec.structs.replace(failure, message=advice, kind=FailureKind.NON_RECOVERABLE)
        if failure.kind is not FailureKind.PARTITION and (sentence := told_by_hadoop(text)):
            hopeless = FailureKind.NON_RECOVERABLE
            failure = msgspec.structs.replace(failure, message=sentence, kind=hopeless, spark_error="")
            return _with_path(failure, locate, explain_path)
        if sentence := clusterfailures.told_of(text):
            return msgspec.structs.replace(failure, message=sentence, kind=FailureKind.ENVIRONMENT, spark_error="")
        sentence, is_hopeless = kafkafailures.told_of(text)
        if sentence:
            kind = FailureKind.NON_RECOVERABLE if is_hopeless else failure.kind
            return msgspec.structs.replace(failure, message=sentence, kind=kind)
        return _with_path(failure, locate, explain_path) if error.getCondition() == _NO_PATH else failure
    vertex, location = locate.from_traceback(error)
    is_hopeless = isinstance(error, PipelineRefused) or no_retry_mends(error)
    failure = FailureInfo(
        kind=FailureKind.NON_RECOVERABLE if is_hopeless else FailureKind.USER,
        message=_plain_message(error),
        exception=_raised(error),
        vertex=vertex,
        location=location,
        trace=trace,
        needs_all=isinstance(error, NeedsAllRows),
    )
    return _with_path(failure, locate, explain_path) if isinstance(error, SourceSilent) else failure


def bare(error: BaseException, kind: FailureKind, trace: str = "") -> FailureInfo:
    """The failure with no more than what the error says."""
    name = type(error).__name__
    return FailureInfo(kind=kind, message=f"{name}: {text_of(error)}", exception=name, trace=trace)


def text_of(error: BaseException) -> str:
    """What it says, as text that can be sent: a file's name may be none, and the user's own class may fail to say anything."""
    try:
        text = str(error)
    except Exception as broken:
        text = f"(it says nothing: its text raises {type(broken).__name__})"
    return _sendable(text)


def trace_of(error: BaseException) -> str:
    """The end of its traceback, as text that can be sent."""
    return _sendable("".join(traceback.format_exception(error))[-MAX_TRACE_CHARS:])


def _sendable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


def _raised(error: BaseException) -> str:
    """The class that the user's code has raised: not of the refusal that stands for it."""
    cause = error.__cause__ if isinstance(error, UserError) else None
    return type(cause or error).__name__


def _plain_message(error: BaseException) -> str:
    if isinstance(error, UserError):
        return text_of(error)
    if isinstance(error, MemoryError):
        return "MemoryError: the task process could not get more memory; collect less data into Python"
    if isinstance(error, ModuleNotFoundError):
        return f"{text_of(error)}: is it installed on the worker, or part of the job's package?"
    text = text_of(error)
    return _shortened(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def _spark_failure(error: Any, plan: RegionPlan, locate: "_Locator", trace: str) -> FailureInfo:
    name, condition = type(error).__name__, str(error.getCondition() or "")
    text = text_of(error)
    kind = FailureKind.ENVIRONMENT if _is_environment(name, text) else FailureKind.USER
    worker = _python_worker_error(text)
    full = next((mark for mark in _DISK_FULL if mark in text), "") if worker is None else ""
    if full:
        kind = FailureKind.ENVIRONMENT
    lost = _lost_partitions(plan, condition, text)
    if lost:
        kind = FailureKind.PARTITION
    of_spark = (condition or name) if worker is None and kind is FailureKind.USER else ""
    if of_spark and is_settled(name, condition):
        kind = FailureKind.NON_RECOVERABLE
    vertex, location = locate.from_traceback(error)
    if worker is not None:
        message, frames = worker
        raised = _RAISED.match(message)
        name = raised[1] if raised is not None else name
        if name in (TargetRefused.__name__, SinkRefused.__name__):  # by what writes batches, in such a worker
            kind = FailureKind.NON_RECOVERABLE
        vertex, location = locate.from_frames(frames) or (vertex, location)
    else:
        message = _main_sentence(text, condition)
        if full and full not in message:
            message = f"{full}: {message}"
        site = locate.from_query_context(error)
        if site is not None:
            vertex, location = site[0] or vertex, site[1]
        elif of_spark and "Analysis" in name:
            vertex = _first_unanalysable(plan) or vertex
    return FailureInfo(
        kind=kind,
        message=_shortened(message),
        exception=name,
        vertex=vertex,
        location=location,
        trace=trace,
        partitions=lost,
        spark_error=of_spark,
    )


def _with_path(failure: FailureInfo, locate: "_Locator", explain_path: ExplainPath) -> FailureInfo:
    """The failure with the line that gave a path which can't be read, when Spark was asked to look for it later."""
    explained = explain_path(failure.message)
    if failure.kind is FailureKind.PARTITION or explained is None:
        return failure
    where, frames = explained
    vertex, location = locate.from_frames(frames) or (failure.vertex, failure.location)
    message = f"{failure.message.rstrip('.')} ({where})" if where else failure.message
    return msgspec.structs.replace(failure, message=_shortened(message), vertex=vertex, location=location)


def _is_environment(name: str, text: str) -> bool:
    return name in ("SparkConnectGrpcException", "_InactiveRpcError") and any(
        mark in text for mark in _ENVIRONMENT_MARKS
    )


def _lost_partitions(plan: RegionPlan, condition: str, text: str) -> tuple[str, ...]:
    if not any(mark in condition or mark in text for mark in _STORED_READ_FAILED):
        return ()
    return tuple(location for location in plan.input_locations if location in text or quote(location, "/:") in text)


_WRITE_FAILED = "[TASK_WRITE_FAILED]"
_CAUSE = re.compile(r"^Caused by: (?:[\w$]+\.)*(.+)$", re.MULTILINE)


def _main_sentence(text: str, condition: str) -> str:
    """Spark's error class and first paragraph: no plan, no JVM stack, no SQL state. With the cause of a write that failed,
    which the paragraph does not have."""
    body = text.split("\n\nJVM stacktrace:", maxsplit=1)[0]
    body = re.split(r"\n\s*(?:==|'|\+-|Driver stacktrace|at )", body)[0]
    lines = [line.strip() for line in body.strip().splitlines() if line.strip()]
    sentence = re.sub(r"\s*SQLSTATE: \w+\s*;?", "", " ".join(lines[:3])).strip()
    sentence = re.sub(r"^\(?(?:org\.apache\.spark|java)[\w.$]*(?:Exception|Error)\)?:?\s*", "", sentence)
    causes = _CAUSE.findall(text) if _WRITE_FAILED in sentence else []
    sentence = f"{sentence} ({causes[-1].strip()})" if causes else sentence
    return sentence if not condition or condition in sentence else f"[{condition}] {sentence}"


def _python_worker_error(text: str) -> tuple[str, list[tuple[str, int]]] | None:
    """(last line, frames) of a traceback of a Python worker inside `text`."""
    start = text.rfind("Traceback (most recent call last):")
    if start < 0:
        return None
    lines = text[start:].splitlines()[1:]
    last = next((line.strip() for line in lines if line.strip() and not line.startswith((" ", "\t"))), "")
    frames = [(match["file"], int(match["line"])) for match in _WORKER_FRAME.finditer("\n".join(lines))]
    return (last, frames) if last else None


def _first_unanalysable(plan: RegionPlan) -> str:
    """The first function whose frame Spark can't analyse; asked only after a failure."""
    for name, frame in plan.frames.items():
        try:
            _ = frame.schema
        except Exception:
            return name
    return ""


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE_CHARS else text[: MAX_MESSAGE_CHARS - 4] + " ..."


class _Locator:
    """Finds lines of the user's code: under the job's code directories, or in the functions themselves."""

    def __init__(self, plan: RegionPlan, code: Sequence[str]) -> None:
        self._roots = [os.path.realpath(path) + os.sep for path in code]
        self._active = plan.active.name if plan.active is not None else ""
        self._ranges = {name: found for name, call in plan.callables.items() if (found := line_range(call))}

    def from_traceback(self, error: BaseException) -> tuple[str, str]:
        """(vertex, location): the innermost frame of the user's code in the chain of causes."""
        for link in _chain(error):
            frames = [(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(link.__traceback__)]
            if isinstance(link, SyntaxError) and link.filename:
                frames.append((link.filename, link.lineno or 0))
            found = self.from_frames(frames)
            if found is not None:
                return found
        return self._active, ""

    def from_frames(self, frames: Sequence[tuple[str, int]]) -> tuple[str, str] | None:
        """The innermost line of the user's code, and the function of the pipeline that has called it."""
        for file, line in reversed(frames):
            shown = self._shown(file)
            if shown is not None:
                functions = (self._function_at(*frame) for frame in reversed(frames))
                return next(filter(None, functions), self._active), f"{shown}:{line}"
        return None

    def from_query_context(self, error: Any) -> tuple[str, str] | None:
        """Place where the failing expression was made, when the client told Spark."""
        for context in error.getQueryContext() or ():
            site = _call_site(context)
            match = _CALL_SITE.search(site)
            if match is not None and self._shown(match["file"]) is not None:
                line = int(match["line"])
                return self._function_at(match["file"], line), f"{self._shown(match['file'])}:{line}"
        return None

    def _shown(self, file: str) -> str | None:
        real = os.path.realpath(file)
        for root in self._roots:
            if real.startswith(root):
                return real[len(root) :]
        if any(real == path for path, _ in self._ranges.values()):
            return os.path.basename(real)
        # A Python worker has its own copy of the shipped zip: `.../pyfiles/<sha>.zip/module.py`.
        inside = re.search(r"\.zip/(.+\.py)$", file)
        return inside[1] if inside else None

    def _function_at(self, file: str, line: int) -> str:
        real = os.path.realpath(file)
        return next((name for name, (path, lines) in self._ranges.items() if path == real and line in lines), "")


def _call_site(context: Any) -> str:
    read: Callable[[], str] = context.callSite
    try:
        return read()
    except Exception:  # SQL text has none
        return ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    for _ in range(MAX_CAUSES):
        if link is None:
            return
        yield link
        link = link.__cause__ or link.__context__
