"""The small JVM beside a process, for clients of databases and brokers."""

import pytest

from firesteel.adapters.spark import gateway

pytestmark = pytest.mark.spark


def test_it_starts_whatever_else_the_user_has_told_all_his_jvms(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second collector on a command line ends a JVM before it begins."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseParallelGC -Duser.said=yes")
    with gateway.opened("") as jvm:
        assert jvm.java.lang.System.getProperty("user.said") == "yes"
