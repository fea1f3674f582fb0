"""What becomes of an application on Kubernetes, as its driver's log and its pods tell it. Pure: lines and pods in."""

import re
from collections.abc import Iterator

import msgspec

from firesteel.adapters.spark.clusters.masters import Driver
from firesteel.adapters.spark.clusters.story import EARLY_EXITS_MAX, ClusterStory

WORDS_MAX_CHARS = 300
"""Most of what Kubernetes says of a pod."""
_REFUSED = re.compile(r"KubernetesClientException: .*?Message: (?P<why>.*?)(?:\. Received status.*)?$")
_FAILED = re.compile(r"ExecutorPodsLifecycleManager: (?P<count>\d+) new failed executors")
_NOT_SEEN = "what its pod's log has: spark.kubernetes.executor.deleteOnTermination=false keeps pods"
_BEGINS = ("", "ContainerCreating", "PodInitializing")
"""Why a container waits that is about to begin."""


class Owner(msgspec.Struct):
    uid: str = ""


class PodMetadata(msgspec.Struct):
    name: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    owners: list[Owner] = msgspec.field(default_factory=list, name="ownerReferences")


class Reason(msgspec.Struct):
    """Of a condition or a container, why it is as it is."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    code: int = msgspec.field(default=0, name="exitCode")


class ContainerState(msgspec.Struct):
    waiting: Reason | None = None
    terminated: Reason | None = None


class Container(msgspec.Struct):
    state: ContainerState = msgspec.field(default_factory=ContainerState)


class PodStatus(msgspec.Struct):
    phase: str = ""
    conditions: list[Reason] = []
    containers: list[Container] = msgspec.field(default_factory=list, name="containerStatuses")


class Pod(msgspec.Struct):
    """What is read of one."""

    metadata: PodMetadata
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class KubernetesStory(ClusterStory):
    """Spark asks for pods and hears of those that run; why one does not is the API server's to say."""

    def __init__(self, driver: Driver, version: str) -> None:
        super().__init__(driver, version)
        self._pods: list[Pod] = []
        self._silence = ""
        self._refused = ""
        """Why the API server has refused the last pod, as when a quota is used up; empty when there are pods."""

    def read(self, line: str) -> None:
        if found := _REFUSED.search(line):
            self._refused = found["why"]
        elif found := _FAILED.search(line):
            self._note_failed(int(found["count"]))
        else:
            super().read(line)

    def _note_failed(self, count: int) -> None:
        """Executors have ended, not for want of room: Spark has others begun in their place, for ever."""
        if not self._has_had_executors:
            self._early_exits, self._last_words = self._early_exits + count, _NOT_SEEN
            if self._early_exits >= EARLY_EXITS_MAX and not self.fatal:
                self._end_for_lack()

    def note_pods(self, pods: list[Pod]) -> None:
        """What those of this application do now."""
        self._pods, self._silence = pods, ""
        if pods:
            self._refused = ""

    def note_silence(self, problem: str) -> None:
        """The API server has not told."""
        self._silence = problem

    @property
    def has_executors(self) -> bool:
        return bool(self.executors) or any(pod.status.phase == "Running" for pod in self._pods)

    def waiting_words(self) -> str:
        words = super().waiting_words()
        if self._silence:
            return f"{words}; {self._silence}"
        reasons = [reason for pod in self._pods for reason in _why_it_waits(pod)]
        if self._refused:
            return f"{words}; Kubernetes refuses pods: {_shortened(self._refused)}"
        if not reasons:
            return words
        count = "1 pod waits" if len(reasons) == 1 else f"{len(reasons)} pods wait"
        return f"executors of {self._master.shown}: {count} ({_shortened(reasons[-1])})"


def _why_it_waits(pod: Pod) -> Iterator[str]:
    """At most one reason, in Kubernetes' own words."""
    if pod.status.phase != "Pending":
        return
    unscheduled = [each for each in pod.status.conditions if each.type == "PodScheduled" and each.status == "False"]
    states = [container.state.waiting for container in pod.status.containers]
    waiting = [each for each in states if each is not None and each.reason not in _BEGINS]
    for found in (*unscheduled, *waiting)[:1]:
        yield f"{found.reason}: {found.message}" if found.message else found.reason


def _shortened(text: str) -> str:
    plain = " ".join(text.split()).rstrip(".")
    return plain if len(plain) <= WORDS_MAX_CHARS else f"{plain[:WORDS_MAX_CHARS]}..."
