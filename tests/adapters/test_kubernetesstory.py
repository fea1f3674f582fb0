"""What is told of executors that are pods: lines of a driver's log and answers of the API server in, sentences out."""

import msgspec
import pytest

from firesteel.adapters.spark.clusters.kubernetes import access_to, executor_pods
from firesteel.adapters.spark.clusters.kubernetesstory import WORDS_MAX_CHARS, KubernetesStory, Pod
from firesteel.adapters.spark.clusters.masters import Driver, attached_settings, read_master
from firesteel.adapters.spark.clusters.stories import story_of
from firesteel.model.options import ConfigurationError

MASTER = read_master("k8s://https://api:6443")
NONE = "WARN TaskSchedulerImpl: Initial job has not accepted any resources; check your cluster UI"
REFUSED = (
    "Caused by: io.fabric8.kubernetes.client.KubernetesClientException: Failure executing: POST at: https://api:6443/api/v1"
    '/namespaces/x/pods. Message: pods "e-1" is forbidden: exceeded quota: full, requested: pods=1'
)
FAILED = "WARN ExecutorPodsLifecycleManager: {count} new failed executors."
REGISTERED = (
    "INFO KubernetesClusterSchedulerBackend$KubernetesDriverEndpoint: Registered executor NettyRpcEndpointRef(spark-client"
    "://Executor) (10.0.0.7:4711) with ID 1, ResourceProfileId 0"
)


def story(*records: str) -> KubernetesStory:
    made = story_of(Driver(MASTER, "10.0.0.1", "here"), "4.3.0")
    assert isinstance(made, KubernetesStory)
    for record in records:
        made.read(record if record.startswith("Caused") else f"2026-11-23 15:33:45.273 {record}")
    return made


def pod(phase: str, **status: object) -> Pod:
    return msgspec.convert({"metadata": {"name": "e-1"}, "status": {"phase": phase, **status}}, Pod)


def unscheduled(why: str) -> Pod:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
    return pod("Pending", conditions=[condition])


def unpulled() -> Pod:
    waiting = {"reason": "ErrImagePull", "message": "no such image"}
    return pod("Pending", containerStatuses=[{"state": {"waiting": waiting}}])


def test_pods_that_wait_are_told_with_their_reasons() -> None:
    told = story(NONE)
    assert told.gives_none
    told.note_pods([unscheduled("0/3 nodes are available: 3 Insufficient cpu."), pod("Pending")])
    assert told.gives_none
    assert told.waiting_words() == (
        "executors of k8s://https://api:6443: 1 pod waits (Unschedulable: 0/3 nodes are available: 3 Insufficient cpu)"
    )
    told.note_pods([unscheduled("x"), unpulled()])
    assert told.waiting_words().endswith(": 2 pods wait (ErrImagePull: no such image)")
    told.note_pods([unscheduled("word " * 100)])
    assert len(told.waiting_words()) < WORDS_MAX_CHARS + 100


def test_a_container_that_is_being_made_is_no_obstacle() -> None:
    told = story(NONE)
    told.note_pods([pod("Pending", containerStatuses=[{"state": {"waiting": {"reason": "ContainerCreating"}}}])])
    assert "Spark's words" in told.waiting_words()
    told.note_pods([pod("Running")])
    assert not told.gives_none, "its executor is about to come"


def test_pods_that_are_refused() -> None:
    told = story(NONE, REFUSED)
    assert told.waiting_words().endswith(
        '; Kubernetes refuses pods: pods "e-1" is forbidden: exceeded quota: full, requested: pods=1'
    )
    told.note_silence("the API server is away")
    assert told.waiting_words().endswith("; the API server is away")
    told.note_pods([pod("Running")])
    assert "refuses" not in told.waiting_words()


def test_executors_that_end_before_any_has_come() -> None:
    told = story(FAILED.format(count=2))
    assert (told.fatal, "2 have ended" in told.waiting_words()) == ("", True)
    told = story(FAILED.format(count=2), FAILED.format(count=1))
    assert told.fatal.startswith(
        "executors of k8s://https://api:6443 start and end before they reach the driver on here"
    )
    assert told.fatal.endswith("spark.kubernetes.executor.deleteOnTermination=false keeps pods")


def test_executors_that_fail_after_one_has_come_are_sparks_to_replace() -> None:
    assert story(REGISTERED, *[FAILED.format(count=1)] * 9).fatal == ""


def test_room_is_waited_for_unless_failures_are_limited() -> None:
    driver = Driver(MASTER, "10.0.0.1", "here")
    assert attached_settings(driver, {})["spark.executor.maxNumFailures"] == str(2**31 - 1)
    assert "spark.executor.maxNumFailures" not in attached_settings(Driver(read_master("yarn"), "", "here"), {})


def test_as_whom_pods_are_asked_for() -> None:
    assert executor_pods(read_master("yarn"), {}, {}, "h") is None
    key = "spark.kubernetes.authenticate"
    access = access_to(MASTER, {f"{key}.oauthToken": "t", "spark.kubernetes.namespace": "etl"}, {})
    assert (access.server, access.namespace, access.bearer()) == ("https://api:6443", "etl", "t")
    with pytest.raises(ConfigurationError, match="files that it names can't be used"):
        access_to(MASTER, {f"{key}.caCertFile": "/nowhere"}, {})
    with pytest.raises(ConfigurationError, match=r"as whom to ask k8s://https://api:6443 is not known: this is no pod"):
        access_to(MASTER, {}, {"KUBECONFIG": "/nowhere"})
