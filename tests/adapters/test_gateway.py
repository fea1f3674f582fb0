"""The small JVM beside a process, for clients of databases and brokers; and what of Server.java needs no Spark."""

from typing import Any

import pytest

from firesteel.adapters.spark import gateway

pytestmark = pytest.mark.spark


def test_it_starts_whatever_else_the_user_has_told_all_his_jvms(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second collector on a command line ends a JVM before it begins."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseParallelGC -Duser.said=yes")
    with gateway.opened("") as jvm:
        assert jvm.java.lang.System.getProperty("user.said") == "yes"


def test_hadoops_defaults_have_no_origin_and_what_was_set_has() -> None:
    """These notes were most of what Spark serialises with each stage."""
    with gateway.opened("") as jvm:
        settings = jvm.org.apache.hadoop.conf.Configuration()
        settings.set("fs.s3a.endpoint", "somewhere", "the user")
        before = jvm.org.apache.hadoop.conf.Configuration(settings)
        jvm.firesteel.Server.forgetOrigins(settings)
        jvm.org.apache.hadoop.conf.Configuration.addDefaultResource("yarn-default.xml")  # as others do later
        copied = jvm.org.apache.hadoop.conf.Configuration(settings)
        assert copied.get("fs.defaultFS") == before.get("fs.defaultFS") == "file:///"
        assert list(before.getPropertySources("fs.defaultFS")) == ["core-default.xml"]
        assert copied.getPropertySources("fs.defaultFS") is None
        assert copied.get("yarn.resourcemanager.hostname") == "0.0.0.0"
        assert copied.getPropertySources("yarn.resourcemanager.hostname") is None
        assert list(copied.getPropertySources("fs.s3a.endpoint")) == ["the user"]
        assert written(jvm, copied) < written(jvm, before)


def written(jvm: Any, settings: Any) -> int:
    """Bytes that settings become."""
    stream = jvm.java.io.ByteArrayOutputStream()
    settings.write(jvm.java.io.DataOutputStream(stream))
    return int(stream.size())
