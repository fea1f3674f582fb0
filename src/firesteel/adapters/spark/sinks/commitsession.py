"""A session of Spark to commit in, for the process that a worker runs a commit to a table in."""

import contextlib
import uuid
from collections.abc import Iterator
from typing import Any

from firesteel.adapters.spark.session.attempt import AttemptSession
from firesteel.adapters.spark.staged.references import SinkWork
from firesteel.adapters.spark.wire import SessionName


@contextlib.contextmanager
def commit_session(work: SinkWork, settings: dict[str, str]) -> Iterator[Any]:
    """A session of the worker's Spark, with these settings on top of the worker's; closed at the end."""
    endpoint = work.endpoint
    assert endpoint is not None, "the worker has said where Spark is"
    name = work.session or SessionName("firesteel", str(uuid.uuid4()))
    spark = AttemptSession(lambda: endpoint, name, "firesteel-commit", {**work.settings, **settings}).get()
    client: Any = spark.client
    client.set_retry_policies([])  # a JVM that has died does not come back: the master tries again
    try:
        yield spark
    finally:
        client.release_session()
        client.close()
