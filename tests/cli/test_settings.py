"""conf/config.yaml and -D."""

from pathlib import Path

import pytest

from firesteel.cli.exits import CommandError
from firesteel.cli.settings import load_configuration, named_values, pairs


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
