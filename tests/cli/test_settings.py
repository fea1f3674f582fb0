"""conf/config.yaml and -D."""

from collections.abc import Callable
from pathlib import Path

import pytest

from firesteel.cli.exits import CommandError
from firesteel.cli.settings import absolute, load_configuration, named_values, pairs
from firesteel.model.options import HA_TYPE


def write(directory: Path, text: str) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "config.yaml").write_text(text)
    return directory


def test_nested_and_flat_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "heartbeat:\n  interval: 2 s\ntaskmanager.numberOfTaskSlots: 3\npipeline:\n"
        "  operator-chaining.enabled: false\nspark:\n  sql.shuffle.partitions: 4\nrestart-strategy.type:\n"
    )
    monkeypatch.setenv("FIRESTEEL_CONF_DIR", str(write(tmp_path / "conf", text)))
    configuration = load_configuration(["taskmanager.numberOfTaskSlots=5"])
    assert dict(configuration) == {
        "heartbeat.interval": "2 s",
        "taskmanager.numberOfTaskSlots": "5",
        "pipeline.operator-chaining.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
    }


def test_home_is_what_a_shell_takes_it_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/owner/me")
    monkeypatch.setenv("FIRESTEEL_CONF_DIR", str(write(tmp_path / "conf", "cluster.dir: ~/c\n")))
    assert dict(load_configuration(["cluster.work-dir=~/w", "spark.local.dir=~/s"])) == {
        "cluster.dir": "/owner/me/c",
        "cluster.work-dir": "/owner/me/w",
        "spark.local.dir": "~/s",
    }


def test_conf_beside_the_user_is_found_and_may_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert dict(load_configuration([])) == {}
    write(tmp_path / "conf", "heartbeat.interval: 1 s\n")
    assert dict(load_configuration([])) == {"heartbeat.interval": "1 s"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("heartbeat.intervall: 1 s", "did you mean heartbeat.interval?"),
        ("heartbeat.interval: soon", "is not a duration"),
        ("heartbeat: {interval: 1 s}\nheartbeat.interval: 2 s", "given twice"),
        ("heartbeat.interval: [1]", "is a list"),
        ("- a", "expected keys"),
        ("a: [", "no valid YAML"),
    ],
)
def test_what_is_wrong_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str) -> None:
    directory = write(tmp_path / "conf", text)
    monkeypatch.setenv("FIRESTEEL_CONF_DIR", str(directory))
    with pytest.raises(CommandError) as caught:
        load_configuration([])
    assert message in caught.value.message
    assert str(directory) in caught.value.message
    assert caught.value.code == 2


FLINKS_OWN = """\
env:
  java:
    opts:
      all: --add-exports=java.base/sun.net.util=ALL-UNNAMED --add-opens=java.base/java.lang=ALL-UNNAMED
jobmanager:
  bind-host: localhost
  rpc:
    address: localhost
    port: 6123
  memory:
    process:
      size: 1600m
  execution:
    failover-strategy: region
taskmanager:
  bind-host: localhost
  host: localhost
  numberOfTaskSlots: 1
  memory:
    process:
      size: 1728m
parallelism:
  default: 1
rest:
  address: localhost
  bind-address: localhost
"""
"""The settings of the `config.yaml` that Flink 2.3 comes with."""


def test_the_file_that_flink_comes_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FIRESTEEL_CONF_DIR", str(write(tmp_path / "conf", FLINKS_OWN)))
    assert dict(load_configuration([])) == {
        "jobmanager.bind-host": "localhost",
        "jobmanager.rpc.address": "localhost",
        "jobmanager.rpc.port": "6123",
        "jobmanager.execution.failover-strategy": "region",
        "taskmanager.numberOfTaskSlots": "1",
        "rest.address": "localhost",
        "rest.bind-address": "localhost",
    }
    (said,) = capsys.readouterr().err.splitlines()
    assert said == (
        "firesteel: warning: options of Flink that mean nothing here: env.java.opts.all, jobmanager.memory.process.size, "
        "taskmanager.bind-host, taskmanager.host, taskmanager.memory.process.size, parallelism.default"
    )


def test_more_that_a_file_of_flinks_may_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Former keys, words of YAML 1.2, lists, maps, reporters; some of it in -D."""
    text = (
        "high-availability: ZOOKEEPER\nhigh-availability.zookeeper.quorum: zk:2181\nrestart-strategy: off\n"
        "classloader.parent-first-patterns.additional: [a, b]\npipeline.global-job-parameters: {x: 1}\n"
        "metrics:\n  reporter.prom.factory.class: org.apache.flink.P\n"
    )
    monkeypatch.setenv("FIRESTEEL_CONF_DIR", str(write(tmp_path / "conf", text)))
    found = load_configuration(["state.backend=rocksdb", "pipeline.operator-chaining=false"])
    assert dict(found) == {
        "high-availability.type": "ZOOKEEPER",
        "high-availability.zookeeper.quorum": "zk:2181",
        "restart-strategy.type": "off",
        "pipeline.operator-chaining.enabled": "false",
    }
    assert found.get_option(HA_TYPE) == "zookeeper"
    assert capsys.readouterr().err.endswith(
        "here: classloader.parent-first-patterns.additional, pipeline.global-job-parameters.x, "
        "metrics.reporter.prom.factory.class, state.backend\n"
    )


def test_a_key_of_today_counts_before_its_former_one() -> None:
    assert dict(load_configuration(["recovery.mode=none", "high-availability.type=filesystem"])) == {
        "high-availability.type": "filesystem"
    }


def test_the_nearest_name_may_be_flinks() -> None:
    with pytest.raises(
        CommandError, match=r"'taskmanager.memory.proces.size'; did you mean taskmanager.memory.process.s"
    ):
        load_configuration(["taskmanager.memory.proces.size=1g"])


def test_a_command_says_once_what_means_nothing(command: Callable[..., tuple[int, str, str]]) -> None:
    _, _, said = command(
        "cluster", "start", "--taskmanagers", "0", "--masters", "2", "--ha", "none", "-D", "web.tmpdir=/x"
    )
    assert "need --ha filesystem" in said, "all of the configuration was looked at"
    assert said.count("mean nothing here: web.tmpdir") == 1


def test_a_directory_that_is_named_must_hold_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRESTEEL_CONF_DIR", str(tmp_path))
    with pytest.raises(CommandError, match="there is no"):
        load_configuration([])


def test_definitions() -> None:
    assert pairs(["a=b=c", " d =", "e= f"], "-D") == {"a": "b=c", "d": "", "e": " f"}
    for wrong in (["a"], ["=b"], ["a=1", "a=2"]):
        with pytest.raises(CommandError):
            pairs(wrong, "-D")
    with pytest.raises(CommandError, match="unknown configuration key"):
        load_configuration(["rest.prt=1"])


def test_parameters_with_and_without_a_value() -> None:
    assert named_values(["a=1", " full ", "b=x=y"]) == ({"a": "1", "b": "x=y"}, ("full",))
    for twice in (["full", "full"], ["full", "full=true"]):
        with pytest.raises(CommandError, match="--param full is given twice"):
            named_values(twice)
    with pytest.raises(CommandError, match="write --param key=value"):
        named_values(["no-name"])


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("", ""),
        ("s3://bucket/x", "s3://bucket/x"),
        ("file:///a/b", "file:///a/b"),
        ("file:/a/b", "/a/b"),
        ("~/x", "/owner/me/x"),
        ("/a/../b", "/b"),
        ("x y", "{here}/x y"),
    ],
)
def test_places_of_savepoints(given: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/owner/me")
    monkeypatch.chdir(tmp_path)
    assert absolute(given) == meant.format(here=tmp_path)
