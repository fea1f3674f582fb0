"""What others are told of jobs: delivered in order, signed, given up in the end; and nothing of it harms a job."""

import asyncio
import hashlib
import hmac
import logging
import re
import threading
from typing import ClassVar

import pytest

from firesteel.adapters.notifications import delivery as module
from firesteel.adapters.notifications.delivery import HttpDelivery
from firesteel.adapters.notifications.listeners import ListenerThread, load_listeners
from firesteel.adapters.notifications.notifier import Notifier
from firesteel.adapters.notifications.openlineage import Lineage
from firesteel.adapters.notifications.webhook import checked_url
from firesteel.model.backoff import ExponentialBackoff
from firesteel.model.options import Configuration, ConfigurationError
from firesteel.model.states import JobStatus
from firesteel.model.statuschange import JobStatusChange
from firesteel.runtime.clock import SystemClock
from tests.adapters.receiver import receiver
from tests.adapters.statuschanges import FAILURE, JOB, change


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSES", ExponentialBackoff(0.01, 0.02))


def test_a_webhook_is_signed_and_says_what_has_changed() -> None:
    async def story() -> None:
        async with receiver() as it:
            options = {"jobmanager.webhook.url": it.url, "jobmanager.webhook.secret": "s3cret"}
            notifier = Notifier(Configuration(options), SystemClock())
            notifier.start()
            notifier.job_status_changed(change())
            notifier.job_status_changed(change(JobStatus.FAILED, failure=FAILURE))
            running, failed = await it.until(2)
            await notifier.close()
            assert (running["state"], running["cause"], running["jid"]) == ("RUNNING", None, JOB)
            assert failed == {
                "event": "job-status-changed",
                "id": f"{JOB}-FAILED-1700000000123",
                "cluster": "default",
                "jid": JOB,
                "name": "wordcount",
                "owner": "ada",
                "state": "FAILED",
                "timestamp": 1_700_000_000_123,
                "cause": {
                    "kind": "user",
                    "message": "no column, password=******",
                    "exception": "ValueError",
                    "function": "words",
                    "location": "",
                },
            }
            for body, headers in zip(it.bodies, it.headers, strict=True):
                signed = headers["firesteel-timestamp"].encode() + b"." + body
                expected = hmac.new(b"s3cret", signed, hashlib.sha256).hexdigest()
                assert headers["firesteel-signature"] == f"sha256={expected}"
                assert headers["content-type"] == "application/json"

    asyncio.run(story())


def test_a_receiver_that_can_not_be_told_harms_nobody(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def events(self: Lineage, change: JobStatusChange) -> list[bytes]:
        raise ValueError("a bug of ours")

    monkeypatch.setattr(Lineage, "events", events)

    async def story() -> None:
        Audit.seen.clear()
        async with receiver() as it:
            options = {
                "jobmanager.webhook.url": it.url,
                "jobmanager.openlineage.url": it.url,
                "jobmanager.job-status-listeners": f"{__name__}:Audit",
            }
            notifier = Notifier(Configuration(options), SystemClock())
            notifier.start()
            notifier.job_status_changed(change())
            notifier.job_status_changed(change(JobStatus.FINISHED))
            assert [each["state"] for each in await it.until(2)] == ["RUNNING", "FINISHED"]
            await notifier.close()
        assert Audit.seen == ["RUNNING", "FINISHED"]

    asyncio.run(story())
    assert caplog.text.count(f"OpenLineage can't be told of job {JOB}") == 1


def delivery(url: str, queue_max: int = 100, tries_max: int = 4) -> HttpDelivery:
    return HttpDelivery("the hook", url, lambda body: {}, queue_max=queue_max, tries_max=tries_max, timeout_s=5.0)


def test_what_may_help_is_tried_again_and_order_is_kept() -> None:
    async def story() -> None:
        async with receiver() as it:
            it.answers += [503, 0, 429, 200]
            hook = delivery(it.url)
            hook.start()
            for number in range(3):
                hook.offer(b"%d" % number)
            assert await it.until(3) == [0, 1, 2]
            assert it.refused == 3
            await hook.close()

    asyncio.run(story())


def test_no_more_is_read_of_an_answer_than_is_wanted() -> None:
    async def story() -> None:
        async with receiver() as it:
            it.answer_bytes = 1 << 30
            hook = delivery(it.url)
            hook.start()
            for number in range(3):
                hook.offer(b"%d" % number)
            assert await it.until(3) == [0, 1, 2]
            await hook.close()
            assert len(it.connections) == 3
            assert it.sent_bytes < 1 << 28, "what the system has buffered"

    asyncio.run(story())


@pytest.mark.parametrize(("answers", "tries"), [([404], 1), ([500] * 4, 4)])
def test_what_does_not_help_is_given_up(answers: list[int], tries: int, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with receiver() as it:
            it.answers += answers
            hook = delivery(it.url)
            hook.start()
            hook.offer(b"1")
            hook.offer(b"2")
            assert await it.until(1) == [2]
            assert it.refused == tries
            await hook.close()
        assert "the hook: an event was not delivered and is dropped: it answers" in caplog.text
        assert it.url not in caplog.text, "it may hold a secret"

    with caplog.at_level(logging.INFO):
        asyncio.run(story())


def test_a_full_queue_drops_what_comes_and_says_how_much(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GRACE_S", 0.0)

    async def story() -> None:
        async with receiver() as it:
            hook = delivery(it.url, queue_max=3)
            for number in range(10):
                hook.offer(b"%d" % number)
            hook.start()
            assert await it.until(3) == [0, 1, 2]
            hook.offer(b"10")
            await it.until(4)
            await hook.close()
        nobody = delivery(it.url)
        nobody.start()
        nobody.offer(b"1")
        nobody.offer(b"2")
        await nobody.close()

    asyncio.run(story())
    assert caplog.text.count("more are dropped") == 1
    assert "takes events again; 7 were dropped" in caplog.text
    assert "2 events were not delivered before the end" in caplog.text


@pytest.mark.parametrize("url", ["ftp://h/x", "http://", "hook", "http://h:99999/x", "http://[x/"])
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(ConfigurationError, match="https://HOST/PATH"):
        checked_url("jobmanager.webhook.url", url)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("https://u:hunter2@h/x", "leave them out"),
        ("https://hunter2@h/x", "leave them out"),
        ("https://h/hunter2/gr\u00fcn", "write them as %XX"),
        ("https://gr\u00fcn/hunter2", "those of a host as xn--"),
        ("https://h/hunter2 x", "write them as %XX"),
    ],
)
def test_urls_and_keys_that_can_not_be_sent_are_refused_at_the_start(url: str, text: str) -> None:
    for name in ("webhook", "openlineage"):
        with pytest.raises(ConfigurationError, match=text) as raised:
            Notifier(Configuration({f"jobmanager.{name}.url": url}), SystemClock())
        assert f"jobmanager.{name}.url" in str(raised.value)
        assert "hunter2" not in str(raised.value)
    with pytest.raises(ConfigurationError, match="api-key: it has a space, or characters that are not of ASCII"):
        Notifier(Configuration({"jobmanager.openlineage.api-key": "schl\u00fcssel"}), SystemClock())


def test_an_event_that_can_not_be_sent_does_not_end_the_delivery(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with receiver() as it:

            def headers(body: bytes) -> dict[str, str]:
                return {"X": "\u00fc"} if body == b"1" else {}

            hook = HttpDelivery("the hook", it.url, headers, queue_max=9, tries_max=4, timeout_s=5.0)
            hook.start()
            hook.offer(b"1")
            hook.offer(b"2")
            async with asyncio.timeout(300.0):
                assert await it.until(1) == [2]
            await hook.close()

    asyncio.run(story())
    assert caplog.text.count("the hook: an event can't be sent and is dropped") == 1


# ── listeners ────────────────────────────────────────────────────────────────────────────────
class Audit:
    """A listener of an operator's."""

    seen: ClassVar[list[str]] = []

    def job_status_changed(self, change: JobStatusChange) -> None:
        self.seen.append(change.status.value)
        if change.status is JobStatus.FAILED:
            raise RuntimeError("a bug of the operator's")


class Unmade:
    def __init__(self) -> None:
        raise OSError("no")


class Nothing: ...


def test_a_listener_is_told_in_order_and_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    Audit.seen.clear()
    (listener,) = load_listeners("key", f"{__name__}:Audit, ")
    listener.start()
    for status in (JobStatus.RUNNING, JobStatus.FAILED, JobStatus.FINISHED):
        listener.offer(change(status))
    listener.close()
    assert Audit.seen == ["RUNNING", "FAILED", "FINISHED"]
    assert "a bug of the operator's" in caplog.text


def test_a_listener_that_hangs_holds_up_nobody(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firesteel.adapters.notifications.listeners.QUEUE_MAX", 2)
    monkeypatch.setattr("firesteel.adapters.notifications.listeners.END_LIMIT_S", 0.05)
    goes_on, called = threading.Event(), threading.Event()

    class Hanging:
        def job_status_changed(self, change: JobStatusChange) -> None:
            called.set()
            goes_on.wait(300)

    listener = ListenerThread("it", Hanging())
    listener.start()
    listener.offer(change())
    assert called.wait(300)
    for _ in range(5):
        listener.offer(change())
    assert caplog.text.count("does not keep up") == 1
    listener.close()
    goes_on.set()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nothing", "write MODULE:CLASS"),
        ("no.such.module:It", "ModuleNotFoundError"),
        (f"{__name__}:Missing", "AttributeError"),
        (f"{__name__}:Unmade", "OSError: no"),
        (f"{__name__}:Nothing", "has no method job_status_changed"),
    ],
)
def test_a_listener_that_can_not_be_made_is_refused_at_the_start(name: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(text)):
        Notifier(Configuration({"jobmanager.job-status-listeners": name}), SystemClock())
