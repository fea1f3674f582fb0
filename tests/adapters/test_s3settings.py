"""What is configured of S3 is said once, and goes to everybody who goes there."""

from firesteel.adapters.storage.s3settings import S3Access, hadoop_settings, spark_settings
from firesteel.model.options import Configuration
from firesteel.model.secrets import HIDDEN, redacted


def test_options_are_said_once_and_go_to_everybody() -> None:
    config = Configuration(
        {
            "s3.endpoint": "http://localhost:9000",
            "s3.secret-key": "of flink",
            "s3.access-key": "of flink",
            "fs.s3a.access.key": "of hadoop",
            "fs.s3a.secret.key": "of hadoop",
            "spark.hadoop.fs.s3a.secret.key": "of spark",
            "fs.s3a.threads.max": "5",
        }
    )
    found = hadoop_settings(config, {"AWS_ENDPOINT_URL": "http://elsewhere"})
    assert found == {
        "fs.s3a.endpoint": "http://localhost:9000",
        "fs.s3a.access.key": "of hadoop",
        "fs.s3a.secret.key": "of spark",
        "fs.s3a.threads.max": "5",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.endpoint.region": "us-east-1",
    }
    assert spark_settings(found)["spark.hadoop.fs.s3a.secret.key"] == "of spark"
    assert S3Access.of(found).path_style
    amazon = Configuration({"fs.s3a.endpoint": "s3.eu-central-1.amazonaws.com"})
    assert hadoop_settings(amazon, {}) == {"fs.s3a.endpoint": "s3.eu-central-1.amazonaws.com"}
    assert S3Access.of(hadoop_settings(amazon, {})).endpoint == "https://s3.eu-central-1.amazonaws.com"
    assert hadoop_settings(Configuration({}), {}) == {}
    assert "of spark" not in repr(S3Access.of(found))


def test_views_hide_the_secrets_under_every_name() -> None:
    for key in ("s3.secret-key", "s3.access-key", "fs.s3a.access.key", "fs.s3a.secret.key", "fs.s3a.encryption.key"):
        for name in (key, f"spark.hadoop.{key}"):
            assert redacted({name: "x"}) == {name: HIDDEN}
    assert redacted({"fs.s3a.session.token": "x", "fs.s3a.endpoint": "x"})["fs.s3a.endpoint"] == "x"
