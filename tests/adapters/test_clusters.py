"""What is said of a Spark elsewhere, and what its driver's log tells: texts in, values out."""

import asyncio
import os
import socket
import time
from pathlib import Path

import pytest

from firesteel.adapters.spark.clusters.lostmaster import ELECTION_S, RECOVERY_S, LostMaster
from firesteel.adapters.spark.clusters.masters import (
    Driver,
    MasterKind,
    attached_settings,
    read_master,
    server_address,
    spark_master,
)
from firesteel.adapters.spark.clusters.reach import MasterUnreachable, driver_host
from firesteel.adapters.spark.clusters.sessions import (
    FORMER_MAX,
    MORE_MAX,
    former_sessions,
    further_session,
    session_of,
)
from firesteel.adapters.spark.clusters.story import EARLY_EXITS_MAX, ClusterStory
from firesteel.adapters.spark.clusters.waiting import PATIENCE_S, ExecutorWait
from firesteel.adapters.spark.jvm.launch import jvm_environment
from firesteel.adapters.spark.worker.clusterprobe import FORGOTTEN_S, driver_death, remove_forgotten
from firesteel.adapters.spark.worker.making import driver_of
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import JobID, RegionAttemptID, RegionIndex
from firesteel.model.options import Configuration, ConfigurationError
from firesteel.model.streams import QueryProgress
from firesteel.model.tasks import TaskProgress

SPARK = read_master("spark://m1:7077")
AT = "2026-11-23 15:33:45.273"
ADDED = "INFO StandaloneSchedulerBackend$StandaloneDriverEndpoint: Registered executor NettyRpcEndpointRef(spark-client://Executor) ({host}:4711) with ID {id}, ResourceProfileId 0"
UPDATED = "INFO StandaloneAppClient$ClientEndpoint: Executor updated: app-1/{id} is now {state} ({why})"
KILLED = "ERROR StandaloneSchedulerBackend: Application has been killed. Reason: {why}"
ATTEMPT = RegionAttemptID(JobID("a" * 32), RegionIndex(2), 3)


def story_of(*records: str) -> ClusterStory:
    story = ClusterStory(Driver(SPARK, "10.0.0.1", "here"), "4.3.0")
    for record in records:
        story.read(record if record.startswith(("\t", "Caused")) else f"{AT} {record}")
    return story


def test_masters_are_told_apart() -> None:
    assert spark_master(Configuration({})).is_local
    assert read_master("local[4]").kind is MasterKind.LOCAL
    assert read_master("yarn").kind is MasterKind.YARN
    pods = read_master("k8s://https://[::1]:6443/path")
    assert (pods.kind, pods.addresses, pods.api_server) == (
        MasterKind.KUBERNETES,
        (("::1", 6443),),
        "https://[::1]:6443/path",
    )
    plain = read_master("k8s://h")
    assert (plain.addresses, plain.api_server) == ((("h", 443),), "https://h")
    assert read_master("k8s://http://h").addresses == (("h", 80),)
    several = read_master("spark://m1:7077,[::1]:7078")
    assert (several.kind, several.addresses) == (MasterKind.STANDALONE, (("m1", 7077), ("::1", 7078)))
    assert spark_master(Configuration({"spark.master": "spark://h:1"})).shown == "spark://h:1"
    assert spark_master(Configuration({"taskmanager.spark.master": "yarn", "spark.master": "local"})).shown == "yarn"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sprak://h:1", "is no Spark master"),
        ("spark://h", "names no address"),
        ("spark://h:1,:2", "names no address"),
        ("spark://h:70000", "names no address"),
        ("sc://", "is no Connect server"),
        ("sc://h:99999", "is no Connect server"),
        ("sc://h:1/path;token=geheim", "is no Connect server"),
        ("sc://h:1/;token=geheim;use_ssl=perhaps", "neither true nor false"),
        ("sc://h:1/;token=geheim;nothing", "not ;NAME=VALUE"),
        ("sc://h:1/;token=geheim;session_id=x", "session of its own"),
        ("sc://h:1/;token=geheim%0A", "which no call can carry"),
        ("sc://h:1/;x-api-key=gehe%C3%A4im", "which no call can carry"),
    ],
)
def test_what_is_no_master_is_refused_and_shows_no_secret(text: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as refused:
        read_master(text)
    assert "taskmanager.spark.master" in str(refused.value)
    assert "geheim" not in str(refused.value)


def test_a_connect_server_is_read_as_pyspark_reads_it() -> None:
    plain = read_master("sc://h")
    assert (plain.addresses, plain.secure, plain.shown) == ((("h", 15002),), False, "sc://h:15002")
    given = read_master("sc://h:443/;token=a%20b;user_id=me;X-Route=1;user_agent=any")
    assert (given.token, given.secure, given.user, given.headers) == ("a b", True, "me", (("x-route", "1"),))
    assert "a b" not in given.shown
    assert not read_master("sc://127.0.0.1:1/;token=t").secure, "no token leaves this host"
    assert read_master("sc://h:1/;use_ssl=true").secure
    address = server_address(given, 7)
    assert (address.host, address.port, address.generation, address.headers) == ("h", 443, 7, (("x-route", "1"),))


def test_a_driver_is_where_its_executors_find_it_unless_the_user_knows_better() -> None:
    driver = Driver(SPARK, "10.0.0.1", "here")
    assert attached_settings(driver, {})["spark.driver.host"] == "10.0.0.1"
    assert attached_settings(driver, {"spark.driver.host": "outside"})["spark.driver.host"] == "outside"
    assert "spark.driver.host" not in attached_settings(Driver(SPARK, "", "here"), {})
    assert driver.pages_host == "10.0.0.1"
    assert Driver(SPARK, "fd00::1", "here").pages_host == "[fd00::1]"


def test_sparks_pages_are_not_for_the_network_where_users_have_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    users = {"rest.users-file": "users"}
    named = driver_of(Configuration(users), SPARK, "10.0.0.1")
    settings = attached_settings(named, {})
    assert (named.pages_host, settings["spark.ui.enabled"]) == ("127.0.0.1", "true")
    assert settings["spark.driver.bindAddress"] == "10.0.0.1", "executors reach it as before"
    assert jvm_environment("token", Path("printed"), Path("modules"), named)["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert attached_settings(named, {}, "10.0.0.2")["spark.driver.bindAddress"] == "10.0.0.2"
    unknown = attached_settings(driver_of(Configuration(users), read_master("k8s://https://h:1"), ""), {})
    assert unknown["spark.ui.enabled"] == "false", "no address is known that could be told apart from loopback"
    for each in ({}, {**users, "taskmanager.spark.ui": "true"}):
        opened = driver_of(Configuration(each), SPARK, "10.0.0.1")
        assert opened.pages_host == "10.0.0.1"
        assert "spark.driver.bindAddress" not in attached_settings(opened, {})
        assert jvm_environment("token", Path("printed"), Path("modules"), opened)["SPARK_LOCAL_IP"] == "10.0.0.1"


def test_a_master_that_is_not_there_is_told_with_its_address_and_from_where() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        port = taken.getsockname()[1]
        with pytest.raises(MasterUnreachable, match=rf"spark://127\.0\.0\.1:{port} can't be reached from .*: start it"):
            asyncio.run(driver_host(read_master(f"spark://127.0.0.1:{port}")))


def test_a_name_that_no_host_can_have_is_told_like_one_that_is_not_there() -> None:
    with pytest.raises(
        MasterUnreachable, match=r"sc://a\.\.b:15002 can't be reached from .*no host can have that name"
    ):
        asyncio.run(driver_host(read_master("sc://a..b")))


def test_the_second_master_will_do() -> None:
    async def story() -> str:
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server:
            return await driver_host(read_master(f"spark://127.0.0.1:1,127.0.0.1:{port}"))

    assert asyncio.run(story()) == "127.0.0.1"
    assert asyncio.run(driver_host(read_master("yarn"))) == ""


def test_executors_come_and_go_in_the_log() -> None:
    story = story_of(
        "INFO Utils: Successfully started service 'SparkUI' on port 37413.",
        "INFO StandaloneSchedulerBackend: Connected to Spark cluster with app ID app-1",
        ADDED.format(host="h1", id=0),
        ADDED.format(host="h2", id=1),
        UPDATED.format(id=0, state="EXITED", why="Command exited with code 137"),
    )
    assert (story.application, story.ui) == ("app-1", "http://10.0.0.1:37413")
    assert story.executors == {"1": "h2:4711"}
    assert story.waiting_words() == (
        "executors of spark://m1:7077 (the last word: executor 0 has ended (exited): Command exited with code 137)"
    )
    story.read(f"{AT} ERROR TaskSchedulerImpl: Lost executor 1 on h2: worker lost: Not receiving heartbeat for 5 s")
    assert not story.executors
    assert "worker lost" in story.waiting_words()
    assert not story.fatal


def test_an_executor_that_is_still_starting_is_one() -> None:
    added = "INFO StandaloneAppClient$ClientEndpoint: Executor added: app-1/0 on worker-1 (h:1) with 2 core(s)"
    waits = "WARN TaskSchedulerImpl: Initial job has not accepted any resources; check your cluster UI"
    starting = story_of(added, waits)
    assert (starting.has_executors, starting.gives_none, starting.executors) == (True, False, {})
    ended = story_of(added, waits, UPDATED.format(id=0, state="EXITED", why="Command exited with code 1"))
    assert (ended.has_executors, ended.gives_none) == (False, True)


def test_an_exhausted_heap_of_an_executor_is_told() -> None:
    story = story_of(ADDED.format(host="h", id=0), UPDATED.format(id=0, state="EXITED", why="exited with code 52"))
    assert "its heap was exhausted" in story.waiting_words()


def test_a_cluster_without_room_is_told_in_sparks_words() -> None:
    story = story_of("WARN TaskSchedulerImpl: Initial job has not accepted any resources; check your cluster UI")
    assert "initial job has not accepted any resources" in story.waiting_words()
    story.read(f"{AT} {ADDED.format(host='h', id=0)}")
    assert story.waiting_words() == "executors of spark://m1:7077"


def test_a_master_that_is_back_and_says_nothing_has_forgotten_the_driver() -> None:
    lost = LostMaster(SPARK)
    assert not lost.has_forgotten(is_lost=True, is_reachable=True, now_s=1.0)
    assert not lost.has_forgotten(is_lost=True, is_reachable=False, now_s=2.0), "the time begins anew"
    assert not lost.has_forgotten(is_lost=True, is_reachable=True, now_s=10.0)
    assert not lost.has_forgotten(is_lost=True, is_reachable=True, now_s=9.9 + RECOVERY_S)
    assert lost.has_forgotten(is_lost=True, is_reachable=True, now_s=10.0 + RECOVERY_S)
    assert not lost.has_forgotten(is_lost=False, is_reachable=True, now_s=10.0 + RECOVERY_S)
    several = LostMaster(read_master("spark://m1:1,m2:2"))
    several.has_forgotten(is_lost=True, is_reachable=True, now_s=0.0)
    assert not several.has_forgotten(is_lost=True, is_reachable=True, now_s=ELECTION_S - 1), "one stands by"
    assert several.has_forgotten(is_lost=True, is_reachable=True, now_s=ELECTION_S)
    story = story_of("INFO StandaloneSchedulerBackend: Connected to Spark cluster with app ID app-1")
    story.forgotten()
    assert "does not know the application app-1 of the driver on here any more" in story.fatal


def test_a_lost_master_is_told_until_it_is_back() -> None:
    story = story_of("WARN StandaloneSchedulerBackend: Disconnected from Spark cluster! Waiting for reconnection...")
    assert "does not answer at the moment" in story.waiting_words()
    story.read(f"{AT} INFO StandaloneAppClient$ClientEndpoint: Master has changed, new master is at spark://m1:7077")
    assert story.waiting_words() == "executors of spark://m1:7077"
    assert not story.fatal


def test_why_nothing_more_can_come_is_told_apart() -> None:
    connected = "INFO StandaloneSchedulerBackend: Connected to Spark cluster with app ID app-1"
    killed = story_of(connected, KILLED.format(why="Master removed our application: KILLED"))
    assert killed.fatal == (
        "the application app-1 was ended by spark://m1:7077: Master removed our application: KILLED"
    )
    silent = story_of(KILLED.format(why="All masters are unresponsive! Giving up."))
    assert "has not answered the driver on here" in silent.fatal
    exits = [UPDATED.format(id=n, state="EXITED", why="Command exited with code 1") for n in range(EARLY_EXITS_MAX)]
    assert not story_of(connected, *exits[1:]).fatal
    assert not story_of(connected, ADDED.format(host="h", id=9), *exits).fatal, "others have reached it"
    assert story_of(connected, *exits[1:], KILLED.format(why="Master removed our application: FAILED")).fatal
    unreached = story_of(connected, *exits)
    assert "before they reach the driver on here" in unreached.fatal
    assert unreached.fatal.endswith("The last has ended with: Command exited with code 1")
    assert "3 have ended before" in unreached.waiting_words()


def test_a_broken_spark_worker_ends_no_driver_while_executors_start_on_another() -> None:
    granted = (
        "INFO StandaloneAppClient$ClientEndpoint: Executor added: app-1/{id} on worker-{w} (h{w}:1) with 2 core(s)"
    )
    broken = [
        each.format(id=number, w=1, state="EXITED", why="Command exited with code 1")
        for number in range(1, 8)
        for each in (granted, UPDATED)
    ]
    story = story_of(granted.format(id=0, w=2), *broken)
    assert not story.fatal
    assert "7 have ended before" in story.waiting_words()
    story.read(f"{AT} {UPDATED.format(id=0, state='EXITED', why='Command exited with code 1')}")
    assert "executors of spark://m1:7077 start on h1, h2 and end before" in story.fatal
    late = story_of(*broken[:4], granted.format(id=0, w=2), *broken[4:])
    assert not late.fatal, "another one has begun in time"
    assert "start on h1 and end before" in story_of(*broken).fatal


def test_a_refused_driver_is_told_at_once_and_why() -> None:
    failed = "WARN StandaloneAppClient$ClientEndpoint: Failed to connect to master m1:7077"
    secret = story_of(failed, "Caused by: java.lang.RuntimeException: IllegalArgumentException: Authentication failed.")
    assert "do not have the same secret" in secret.fatal
    bootstrap = "ERROR TransportClientFactory: Exception while bootstrapping client after 13 ms"
    digest = "Caused by: javax.security.sasl.SaslException: DIGEST-MD5: digest response format violation."
    assert story_of(bootstrap, digest).fatal == secret.fatal
    connected = "INFO StandaloneSchedulerBackend: Connected to Spark cluster with app ID app-1"
    assert not story_of(connected, bootstrap, digest).fatal, "the master has let it in"
    version = story_of(failed, "Caused by: java.io.InvalidClassException: local class incompatible")
    assert "of another version than Spark 4.3.0" in version.fatal
    other = story_of(
        failed, "Caused by: java.net.ConnectException: refused", "WARN X: anything", "\tat InvalidClassException"
    )
    assert not other.fatal, "a trace belongs to the record before it"


def test_an_attempt_waits_when_it_has_had_nothing_to_run_on_for_a_while() -> None:
    wait = ExecutorWait()
    due = TaskProgress(attempt=ATTEMPT, tasks_total=8, tasks_done=3)
    running = TaskProgress(attempt=ATTEMPT, tasks_total=8, tasks_done=3, tasks_running=1)
    assert wait.note(due, 0, 10.0) == 0
    assert wait.note(due, 0, 10.0 + PATIENCE_S) == PATIENCE_S
    assert wait.note(running, 0, 20.0) == 0
    assert wait.note(due, 0, 21.0) == 0, "the time begins anew"
    assert wait.note(due, 1, 30.0) == 0, "others have the executor: that is a turn, not a wait"
    assert wait.note(due, -1, 40.0) == 0, "nobody counts them"
    assert wait.note(TaskProgress(attempt=ATTEMPT), 0, 50.0) == 0


def test_a_stream_waits_when_its_cluster_is_known_to_owe_executors() -> None:
    wait = ExecutorWait()
    stream = TaskProgress(attempt=ATTEMPT, queries=(QueryProgress(uid="q"),))
    assert wait.note(stream, 0, 10.0) == wait.note(stream, 0, 90.0) == 0, "it may have nothing to do"
    wait.note(stream, 0, 100.0, is_known=True)
    assert wait.note(stream, 0, 101.0 + PATIENCE_S, is_known=True) == 1.0 + PATIENCE_S
    assert wait.note(stream, 1, 200.0, is_known=True) == 0


def test_executors_are_owed_when_spark_says_so_or_the_last_was_lost() -> None:
    lost = "ERROR TaskSchedulerImpl: Lost executor 0 on h: {why}"
    assert story_of("WARN TaskSchedulerImpl: Initial job has not accepted any resources; check").is_waited_for
    assert not story_of(ADDED.format(host="h", id=0), lost.format(why="Executor killed by driver.")).is_waited_for
    both = story_of(ADDED.format(host="h", id=0), ADDED.format(host="h", id=1), lost.format(why="worker lost"))
    known = [both.is_waited_for]
    for record in (
        UPDATED.format(id=1, state="EXITED", why="Command exited with code 137"),
        ADDED.format(host="h", id=2),
    ):
        both.read(f"{AT} {record}")
        known.append(both.is_waited_for)
    assert known == [False, True, False]


def test_sessions_are_named_by_their_attempt_and_former_ones_are_known() -> None:
    names = [session_of(RegionAttemptID(ATTEMPT.job_id, ATTEMPT.region, number), "me") for number in range(4)]
    assert len(set(names)) == 4
    found = former_sessions(ATTEMPT, "me")
    assert found[:: MORE_MAX + 1] == [names[2], names[1], names[0]]
    assert found[1] == further_session(names[2], 1), "what its code has made of its session is closed with it"
    assert len({*found}) == 3 * (MORE_MAX + 1)
    assert former_sessions(RegionAttemptID(ATTEMPT.job_id, ATTEMPT.region, 0), "me") == []
    assert len(former_sessions(RegionAttemptID(ATTEMPT.job_id, ATTEMPT.region, 100), "me")) == FORMER_MAX * (
        MORE_MAX + 1
    )


def test_a_driver_that_did_not_start_is_told_with_its_cluster_and_sparks_words() -> None:
    trace = "WARNING: Using incubator modules\nException in thread main: either HADOOP_CONF_DIR must be set\n\tat x.y\n"
    death = FailureInfo(kind=FailureKind.ENVIRONMENT, message="it ended with status 1", trace=trace)
    told = driver_death(death, read_master("yarn"))
    assert told.message.startswith("the driver for yarn did not start on ")
    assert told.message.endswith("either HADOOP_CONF_DIR must be set")
    named = FailureInfo(kind=FailureKind.ENVIRONMENT, message="spark://m1:7077 has refused the driver", trace=trace)
    assert driver_death(named, SPARK).message == named.message


def test_what_the_probe_of_a_killed_worker_has_left_is_removed_by_a_later_one(tmp_path: Path) -> None:
    old, fresh, other = (tmp_path / name for name in ("_firesteel_probe-1", "_firesteel_probe-2", "job"))
    for each in (old, fresh, other):
        (each / "part").mkdir(parents=True)
    now_s = time.time()
    for each in (old, other):
        os.utime(each, (now_s, now_s - FORGOTTEN_S - 1))
    remove_forgotten(tmp_path, now_s)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["_firesteel_probe-2", "job"]
    remove_forgotten(tmp_path / "not there", now_s)
