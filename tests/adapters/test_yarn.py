"""YARN by its files, and what a driver's log tells of its application: texts in, values out."""

from pathlib import Path

import pytest

from firesteel.adapters.spark.clusters.masters import Driver, attached_settings, read_master
from firesteel.adapters.spark.clusters.stories import story_of
from firesteel.adapters.spark.clusters.yarn import located
from firesteel.adapters.spark.clusters.yarnstory import WORDS_MAX_CHARS, YarnStory
from firesteel.model.options import ConfigurationError

YARN = read_master("yarn")
AT = "2026-11-24 16:12:34.791"
REPORT = "INFO Client: Application report for application_1_0003 (state: {state})"
DETAILS = (
    "\t client token: N/A",
    "\t diagnostics: [Tue Nov 24 16:12:33 +0000 2026] Queue's AM resource limit exceeded.  Details : AM Partition = x",
    "\t queue: root.tight",
    "\t tracking URL: http://rm:8088/proxy/application_1_0003/",
)
EXITED = "ERROR YarnClientSchedulerBackend: YARN application has exited unexpectedly with state KILLED! Check the logs."
LAST_WORDS = "ERROR YarnClientSchedulerBackend: Diagnostics message: Application was killed by user me"
REGISTERED = (
    "INFO YarnSchedulerBackend$YarnDriverEndpoint: Registered executor NettyRpcEndpointRef(spark-client://Executor)"
    " (10.0.0.2:56756) with ID 1, ResourceProfileId 0"
)


def told(*records: str) -> YarnStory:
    story = story_of(Driver(YARN, "10.0.0.1", "here"), "4.3.0")
    assert isinstance(story, YarnStory)
    for record in records:
        story.read(record if record.startswith("\t") else f"{AT} {record}")
    return story


def site(directory: Path, **properties: str) -> dict[str, str]:
    """Environment of who is told of a directory with these properties of its ResourceManagers."""
    lines = (
        f"<property><name>yarn.resourcemanager.{key.replace('__', '-').replace('_', '.')}</name><value>{value}</value></property>"
        for key, value in properties.items()
    )
    (directory / "yarn-site.xml").write_text(f"<configuration>{''.join(lines)}</configuration>")
    return {"HADOOP_CONF_DIR": str(directory)}


def test_resource_managers_are_those_of_hadoops_files(tmp_path: Path) -> None:
    def found(**properties: str) -> tuple[tuple[str, int], ...]:
        return located(YARN, site(tmp_path, **properties)).addresses

    assert found() == (("127.0.0.1", 8032),)
    assert found(hostname="rm") == (("rm", 8032),)
    assert found(hostname="rm", address="${yarn.resourcemanager.hostname}:9") == (("rm", 9),)
    assert found(address="other") == (("other", 8032),)
    assert found(address="${yarn.resourcemanager.address}:1")[0][1] == 1, "not for ever"
    several = found(ha_enabled="true", ha_rm__ids="a, b", hostname_a="h1", address_b="h2:7")
    assert several == (("h1", 8032), ("h2", 7))
    both = {**site(tmp_path, hostname="first"), "HADOOP_CONF_DIR": "/nowhere", "YARN_CONF_DIR": str(tmp_path)}
    assert located(YARN, both).addresses == (("first", 8032),)


def test_what_names_no_yarn_is_refused_and_others_are_left_alone(tmp_path: Path) -> None:
    spark = read_master("spark://m1:7077")
    assert located(spark, {}) is spark
    with pytest.raises(ConfigurationError, match=r"let HADOOP_CONF_DIR name the directory of yarn-site\.xml"):
        located(YARN, {"HADOOP_CONF_DIR": ""})
    with pytest.raises(
        ConfigurationError, match=rf"{tmp_path}, which .* has no yarn-site.xml that can be read: .*No such"
    ):
        located(YARN, {"HADOOP_CONF_DIR": str(tmp_path)})
    (tmp_path / "yarn-site.xml").write_text("<configuration>")
    with pytest.raises(ConfigurationError, match="no element found"):
        located(YARN, {"HADOOP_CONF_DIR": str(tmp_path)})


def test_an_application_that_waits_is_told_with_its_queue_and_yarns_reason() -> None:
    assert told().queued == ""
    assert told(REPORT.format(state="ACCEPTED")).queued == "yarn has not begun application_1_0003 yet, which waits"
    story = told(REPORT.format(state="ACCEPTED"), "INFO Client:", *DETAILS)
    assert story.queued == (
        "yarn has not begun application_1_0003 yet, which waits in the queue root.tight: Queue's AM resource limit exceeded"
    )
    long = told(REPORT.format(state="ACCEPTED"), f"\t diagnostics: {'x' * 900}").queued
    assert long.endswith(f"{'x' * WORDS_MAX_CHARS}...")
    story.read(f"{AT} {REPORT.format(state='RUNNING')}")
    assert (story.queued, story.application) == ("", "application_1_0003")
    assert story.ui == "http://rm:8088/proxy/application_1_0003", "the driver sends others there"
    story.read(f"{AT} INFO Utils: Successfully started service 'SparkUI' on port 4040.")
    assert story.ui == "http://rm:8088/proxy/application_1_0003"


def test_an_application_that_was_ended_is_told_with_yarns_last_words() -> None:
    running = REPORT.format(state="RUNNING")
    assert not told(running, EXITED).fatal, "its last words come next"
    ended = "the application application_1_0003 was ended by yarn: its state is KILLED"
    assert told(running, EXITED, LAST_WORDS).fatal == f"{ended} (Application was killed by user me)"
    assert told(running, EXITED, "INFO SparkContext: stopping").fatal == ended
    assert told(EXITED, LAST_WORDS, LAST_WORDS).fatal.startswith("the application was ended by yarn")


def test_executors_are_those_of_any_cluster() -> None:
    story = told(REGISTERED)
    assert story.executors == {"1": "10.0.0.2:56756"}
    story.read(f"{AT} ERROR YarnScheduler: Lost executor 1 on h: Container killed by YARN for exceeding memory limits.")
    assert not story.executors
    assert "Container killed by YARN for exceeding memory limits" in story.waiting_words()


def test_a_driver_on_yarn_has_no_pages_unless_it_was_told_so() -> None:
    assert attached_settings(Driver(YARN, "10.0.0.1", "here"), {})["spark.ui.enabled"] == "false"
