"""Where WebHDFS is asked."""

from pathlib import Path

import pytest

from firesteel.adapters.storage.errors import TargetRefused
from firesteel.adapters.storage.hdfssettings import addresses_of, hdfs_settings, user_name
from firesteel.model.options import Configuration, ConfigurationError

SITE = """<configuration>
<property><name>dfs.nameservices</name><value>big</value></property>
<property><name>dfs.ha.namenodes.big</name><value>one, two</value></property>
<property><name>dfs.namenode.http-address.big.one</name><value>a:9870</value></property>
<property><name>dfs.namenode.http-address.big.two</name><value>b:9870</value></property>
</configuration>"""


@pytest.mark.parametrize(
    ("config", "uri", "expected"),
    [
        ({}, "hdfs://nn:8020/x", ("http://nn:9870",)),
        ({}, "hdfs://nn/x", ("http://nn:9870",)),
        ({"spark.hadoop.dfs.http.policy": "HTTPS_ONLY"}, "hdfs://nn/x", ("https://nn:9871",)),
        ({"spark.hadoop.dfs.namenode.http-address": "0.0.0.0:50070"}, "hdfs://nn/x", ("http://nn:50070",)),
        ({"fs.hdfs.webhdfs-address": "gate:1"}, "hdfs://nn/x", ("http://gate:1",)),
        ({"fs.hdfs.webhdfs-address": "a:1, https://b:2/"}, "hdfs://nn/x", ("http://a:1", "https://b:2")),
    ],
)
def test_where(config: dict[str, str], uri: str, expected: tuple[str, ...]) -> None:
    assert addresses_of(uri, hdfs_settings(Configuration(config), {})) == expected


def test_a_name_service_is_looked_up_in_the_users_own_file(tmp_path: Path) -> None:
    (tmp_path / "hdfs-site.xml").write_text(SITE)
    settings = hdfs_settings(Configuration({}), {"HADOOP_CONF_DIR": str(tmp_path)})
    assert addresses_of("hdfs://big/x", settings) == ("http://a:9870", "http://b:9870")
    del settings["dfs.namenode.http-address.big.two"]
    with pytest.raises(
        TargetRefused, match=r"dfs.namenode.http-address.big.two is not set; or set fs.hdfs.webhdfs-add"
    ):
        addresses_of("hdfs://big/x", settings)


def test_what_can_not_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "hdfs-site.xml").write_text("<configuration>")
    with pytest.raises(ConfigurationError, match=r"hdfs-site.xml can't be read"):
        hdfs_settings(Configuration({}), {"HADOOP_CONF_DIR": str(tmp_path)})
    for text in ("nn", "ftp://nn:1", "http://nn:9870/webhdfs"):
        with pytest.raises(ConfigurationError, match=r"fs.hdfs.webhdfs-address: .* is no address like HOST:9870"):
            hdfs_settings(Configuration({"fs.hdfs.webhdfs-address": text}), {})


def test_we_are_who_hadoops_client_is() -> None:
    assert user_name({"HADOOP_USER_NAME": "etl"}) == "etl"
    assert user_name({})
