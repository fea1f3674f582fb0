"""Spark's settings as a pipeline's functions set them: they hold for what is made of a function's result, and nothing else.

A setting acts on whole queries, and which functions make one query is decided by how the pipeline is cut. So a source may
set what it likes: its settings go where its rows go, over stored results too. A function with inputs may not set what could
change their rows, and inputs that were made with different settings of that kind can't be brought together.
"""

import re
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from firesteel.adapters.spark import internals
from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.adapters.spark.session.meanings import Meanings
from firesteel.adapters.spark.session.resets import RESET
from firesteel.adapters.spark.session.sqltext import SKIPPED, text_of

Changes = Mapping[str, str | None]
"""Settings that differ from the job's own; None: unset."""
_FOR_SPEED_OR_WRITING = (
    "spark.app.name",
    "spark.driver.",
    "spark.dynamicAllocation.",
    "spark.executor.",
    "spark.sql.adaptive.",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.broadcastTimeout",
    "spark.sql.cbo.",
    "spark.sql.codegen.",
    "spark.sql.debug.",
    "spark.sql.execution.arrow.",
    "spark.sql.files.maxPartition",
    "spark.sql.files.maxRecordsPerFile",
    "spark.sql.files.minPartitionNum",
    "spark.sql.files.openCostInBytes",
    "spark.sql.inMemoryColumnarStorage.",
    "spark.sql.join.",
    "spark.sql.optimizer.",
    "spark.sql.orc.compression.codec",
    "spark.sql.parquet.compression.codec",
    "spark.sql.parquet.outputTimestampType",
    "spark.sql.repl.",
    "spark.sql.shuffle.",
    "spark.sql.sources.partitionOverwriteMode",
)
_READ_BY_SPARK = ("spark.", "mapreduce.", "mapred.", "hive.", "fs.", "dfs.", "io.")
"""Begins what may be a setting of Spark's or Hadoop's; other names are the user's own."""
_SET = re.compile(rf"{SKIPPED}SET\s+`?(?P<name>[\w.:\-]+)`?\s*=", re.IGNORECASE | re.DOTALL)
_SET_ZONE = re.compile(rf"{SKIPPED}SET\s+TIME\s+ZONE\b", re.IGNORECASE | re.DOTALL)
_ZONE = "spark.sql.session.timeZone"
_OURS = ("spark.sql.functionResolution.sessionOrder", "spark.scheduler.pool", "spark.firesteel.client-directory")
"""Set by ourselves in each session anew, and not to be carried to another."""


def changes_rows(name: str) -> bool:
    """Whether a query may have other rows with another value."""
    return name.startswith(_READ_BY_SPARK) and not name.startswith(_FOR_SPEED_OR_WRITING)


class SessionSettings:
    """Settings of one session that were changed, by whomever. A hook of its client."""

    def __init__(
        self, session: Any, job: Mapping[str, str], before_change: Callable[[str], None], meanings: Meanings
    ) -> None:
        self._session, self._job, self._meanings = session, dict(job), meanings
        self._id = internals.session_id_of(session.client)
        self._changed: dict[str, str | None] = {}
        self._unclear: dict[str, None] = {}
        """Names that SQL text has set, as which values only Spark knows."""
        self._lock = threading.Lock()
        self._before_change, self._is_switching = before_change, False
        self._ask: Callable[[Any], Any] = session.client.config
        session.client.config = self._config
        internals.add_hook(session.client, self)

    def changes(self) -> Changes:
        """Settings that differ now."""
        with self._lock:
            unclear, self._unclear = list(self._unclear), {}
        for name in unclear:
            self._note(name, self._session.conf.get(name, None))
            self._meanings.setting_known(self._id, name, self._changed.get(name))
        return dict(self._changed)

    def switch(self, wanted: Changes) -> None:
        """Have exactly these differ."""
        current, self._is_switching = self.changes(), True
        try:
            for name in [*(each for each in current if each not in wanted), *wanted]:
                value = wanted[name] if name in wanted else self._job.get(name)
                if name not in current or name not in wanted or current[name] != value:
                    self._session.conf.unset(name) if value is None else self._session.conf.set(name, value)
        finally:
            self._is_switching = False

    def on_execute_plan(self, request: Any) -> Any:
        text = text_of(request.plan)
        for name in [each for each in self._set_in(text) if each not in _OURS] if text else ():
            self._before_change(name)
            self._unclear[name] = None
            if changes_rows(name):
                self._meanings.setting_changed(request.session_id, name, text, by_user=True)
        return request

    def _set_in(self, text: str) -> list[str]:
        if _SET_ZONE.match(text):
            return [_ZONE]
        if (reset := RESET.match(text)) is not None:
            return [reset["name"]] if reset["name"] else list(dict.fromkeys([*self._job, *self._changed]))
        found = _SET.match(text)
        return [found["name"]] if found is not None else []

    def _config(self, operation: Any) -> Any:
        values: dict[str, str | None] = {pair.key: pair.value for pair in operation.set.pairs}
        values.update(dict.fromkeys(operation.unset.keys))
        for name in _OURS:
            values.pop(name, None)
        for name in () if self._is_switching else values:
            self._before_change(name)
        result = self._ask(operation)
        for name, value in values.items():
            self._note(name, value)
            if changes_rows(name):
                self._meanings.setting_changed(self._id, name, self._changed.get(name), by_user=not self._is_switching)
        return result

    def _note(self, name: str, value: str | None) -> None:
        with self._lock:
            if value == self._job.get(name):
                self._changed.pop(name, None)
            else:
                self._changed[name] = value


def merged(function: str, inputs: Iterable[tuple[str, Changes]]) -> Changes:
    """Settings with which a function's inputs, given by name, are to be read. Raises PipelineRefused."""
    known = list(inputs)
    together: dict[str, str | None] = {}
    for _, changes in known:
        together.update((name, value) for name, value in changes.items() if name not in together)
    for name in filter(changes_rows, together):
        having = {source: changes.get(name, "the job's") for source, changes in known}
        if len(set(having.values())) > 1:
            shown = ", ".join(f"{source} with {value}" for source, value in having.items())
            raise PipelineRefused(
                f"{function} brings together what was made with different values of {name}: {shown}; the query can have"
                f" only one: set it for the whole job, with -D {name}=VALUE"
            )
    return together


def refuse_change(function: str, inputs: Iterable[str], name: str) -> None:
    """A function with inputs is about to set this. Raises PipelineRefused."""
    if changes_rows(name):
        raise PipelineRefused(
            f"{function} sets {name}, which may change what its input {', '.join(inputs)} is: that would be computed with"
            " it or without, depending on how the pipeline is cut into regions; set it for the whole job, with"
            f" -D {name}=VALUE, or in the sources"
        )
