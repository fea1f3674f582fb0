"""The story of a driver, by the kind of its cluster."""

from firesteel.adapters.spark.clusters.kubernetesstory import KubernetesStory
from firesteel.adapters.spark.clusters.masters import Driver, MasterKind
from firesteel.adapters.spark.clusters.story import ClusterStory
from firesteel.adapters.spark.clusters.yarnstory import YarnStory


def story_of(driver: Driver, version: str) -> ClusterStory:
    """`version` is its Spark's."""
    match driver.master.kind:
        case MasterKind.YARN:
            return YarnStory(driver, version)
        case MasterKind.KUBERNETES:
            return KubernetesStory(driver, version)
        case _:
            return ClusterStory(driver, version)
