"""Notifier: everybody who is told of changes of jobs' states, as the configuration says."""

import asyncio
import logging
from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING

from firesteel.adapters.notifications.listeners import load_listeners
from firesteel.adapters.notifications.openlineage import Lineage
from firesteel.adapters.notifications.otlp import export_request
from firesteel.adapters.notifications.tracing import spans_of
from firesteel.adapters.notifications.webhook import Signer, checked_api_key, checked_url, webhook_body
from firesteel.model import options
from firesteel.model.options import Configuration
from firesteel.model.statuschange import JobStatusChange
from firesteel.model.views import JobResult, JobView
from firesteel.runtime.services import Clock

if TYPE_CHECKING:
    from firesteel.adapters.notifications.delivery import Headers, HttpDelivery

PROTOBUF = {"Content-Type": "application/x-protobuf"}

logger = logging.getLogger(__name__)


class Notifier:
    """Tells webhook, lineage and listeners. `job_status_changed` returns at once and raises nothing."""

    def __init__(self, config: Configuration, clock: Clock) -> None:
        """Raises ConfigurationError."""
        self._config, self._clock = config, clock
        self._cluster = config.get_option(options.CLUSTER_ID)
        self._listeners = load_listeners(
            options.JOB_STATUS_LISTENERS.key, config.get_option(options.JOB_STATUS_LISTENERS)
        )
        for each in (options.WEBHOOK_URL, options.OPENLINEAGE_URL, options.TRACES_ENDPOINT):
            if url := config.get_option(each):
                checked_url(each.key, url)
        checked_api_key(options.OPENLINEAGE_API_KEY.key, config.get_option(options.OPENLINEAGE_API_KEY))
        self._lineage = Lineage(config.get_option(options.OPENLINEAGE_NAMESPACE))
        self._webhook: HttpDelivery | None = None
        self._openlineage: HttpDelivery | None = None
        self._traces: HttpDelivery | None = None
        self._failing: set[str] = set()
        """Receivers that could not be told of the last change: that is logged once until they can again."""

    def start(self) -> None:
        """Begin to deliver; on the event loop."""
        if url := self._config.get_option(options.WEBHOOK_URL):
            signer = Signer(self._config.get_option(options.WEBHOOK_SECRET), self._clock)
            self._webhook = self._delivery("the webhook", url, signer.headers)
        if url := self._config.get_option(options.OPENLINEAGE_URL):
            key = self._config.get_option(options.OPENLINEAGE_API_KEY)
            given = {"Authorization": f"Bearer {key}"} if key else {}
            self._openlineage = self._delivery("OpenLineage", url, lambda body: given)
        if url := self._config.get_option(options.TRACES_ENDPOINT):
            self._traces = self._delivery("the receiver of traces", url, lambda body: PROTOBUF)
        for listener in self._listeners:
            listener.start()

    def job_status_changed(self, change: JobStatusChange) -> None:
        for what, offer in (("the webhook", self._offer_webhook), ("OpenLineage", self._offer_openlineage)):
            self._offer(what, offer, change)
        for listener in self._listeners:
            listener.offer(change)

    def job_archived(self, view: JobView, result: JobResult) -> None:
        """Told of each job that has ended, with all that is known of it, in its clean-up."""
        if self._traces is not None:
            name = self._config.get_option(options.TRACES_SERVICE_NAME)
            resource = {"service.name": name, "firesteel.cluster.id": self._cluster}
            scope = ("firesteel", version("firesteel"))
            self._traces.offer(export_request(spans_of(view, result), resource, scope))

    def _offer(self, what: str, offer: Callable[[JobStatusChange], None], change: JobStatusChange) -> None:
        """The caller leads all jobs, and must not break of what one of them reads or writes."""
        try:
            offer(change)
            self._failing.discard(what)
        except Exception:
            if what not in self._failing:
                logger.warning("%s can't be told of job %s", what, change.job_id, exc_info=True)
            self._failing.add(what)

    def _offer_webhook(self, change: JobStatusChange) -> None:
        if self._webhook is not None:
            self._webhook.offer(webhook_body(change, self._cluster))

    def _offer_openlineage(self, change: JobStatusChange) -> None:
        if self._openlineage is not None:
            for body in self._lineage.events(change):
                self._openlineage.offer(body)

    async def close(self) -> None:
        """Wait a limited time for what is to be delivered."""
        deliveries = [each for each in (self._webhook, self._openlineage, self._traces) if each is not None]
        await asyncio.gather(
            *(each.close() for each in deliveries), *(asyncio.to_thread(each.close) for each in self._listeners)
        )

    def _delivery(self, what: str, url: str, headers: "Headers") -> "HttpDelivery":
        """One that is started. Its library is loaded only where there is any."""
        from firesteel.adapters.notifications.delivery import HttpDelivery

        made = HttpDelivery(
            what,
            url,
            headers,
            queue_max=self._config.get_option(options.WEBHOOK_QUEUE_SIZE),
            tries_max=self._config.get_option(options.WEBHOOK_TRIES),
            timeout_s=self._config.get_option(options.WEBHOOK_TIMEOUT) / 1_000,
        )
        made.start()
        return made
