"""The session builders of user code: they give the attempt's session, and say what of their settings has no effect."""

import sys
from collections.abc import Mapping
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as ConnectSession

from firesteel.adapters.spark import internals
from firesteel.adapters.spark.scripts.unoffered import ScriptContext
from firesteel.adapters.spark.session.attempt import AttemptSession, offer_by_default

_CATALOG = "spark.sql.catalogImplementation"
_PLACES = ("spark.master", "spark.remote")
"""Say where Spark is: that is the cluster's to say."""
_QUIET = ("spark.app.name", "spark.api.mode")
_HADOOP = "spark.hadoop."


def open_sessions_for_builders(sessions: AttemptSession, *, for_script: bool) -> None:
    """Have `SparkSession.builder` give this attempt's session to the code that this process runs, from here on.

    The first settings that a script gives to a builder are those that its session begins with, to which `RESET` goes back.
    """
    told: dict[str, None] = {}
    is_first = iter([for_script])
    sessions.meanings.is_users_code = for_script

    def get_or_create(builder: Any) -> Any:
        session = sessions.get()
        internals.make_active(session)
        set_now = _apply(session, internals.options_of(builder), told)
        sessions.begun.update(set_now if next(is_first, False) else {})
        return session

    def with_hive(builder: Any) -> Any:
        return builder.config(_CATALOG, "hive")

    for builder in (SparkSession.Builder, ConnectSession.Builder):
        builder.getOrCreate = builder.create = get_or_create  # type: ignore[method-assign, assignment]
    ConnectSession.Builder.enableHiveSupport = with_hive  # type: ignore[method-assign, assignment]
    offer_by_default(sessions)
    ConnectSession.sparkContext = ScriptContext()  # type: ignore[attr-defined]


def note(text: str) -> None:
    """A line for whoever reads what the script prints."""
    print(f"firesteel: {text}", file=sys.stderr, flush=True)


def _apply(session: Any, options: Mapping[str, Any], told: dict[str, None]) -> dict[str, str]:
    """Settings of the session are set, and returned; those that were fixed when Spark started are told by name, once each."""
    made: dict[str, str] = {}
    for key, value in options.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if key in _PLACES:
            _warn_once(told, key, f"{key} {text!r} in the code is ignored: it runs on the cluster that it was given to")
        elif not _is_set(session, key, text):
            what = "Hive support" if key == _CATALOG else f"{key}={text} in the code"
            advice = f"set {key} for the cluster, in its configuration or with -D when it is started"
            _warn_once(told, key, f"{what} has no effect: it is fixed since Spark was started; {advice}")
        else:
            made[key] = text
            if key.startswith(_HADOOP):  # of a session, Hadoop gets what is called as Hadoop calls it
                made[key.removeprefix(_HADOOP)] = text
                session.conf.set(key.removeprefix(_HADOOP), text)
    return made


def _is_set(session: Any, key: str, text: str) -> bool:
    try:
        session.conf.set(key, text)
    except PySparkException:
        return key in _QUIET or session.conf.get(key, None) == text
    return True


def _warn_once(told: dict[str, None], key: str, text: str) -> None:
    if key not in told:
        told[key] = None
        note(text)
