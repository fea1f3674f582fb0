"""Which texts are shown to nobody."""

import pytest

from firesteel.model.secrets import redacted, redacted_text, redacted_value


def test_of_the_url_of_a_webhook_the_host_is_shown() -> None:
    shown = redacted(
        {
            "jobmanager.webhook.url": "https://hooks.slack.com/services/T0/B0/abcd",
            "slack_webhook": "https://chat:8443?key=abcd",
            "jobmanager.webhook.timeout": "10 s",
            "jobmanager.openlineage.url": "http://host:5000/api/v1/lineage",
        }
    )
    assert shown == {
        "jobmanager.openlineage.url": "http://host:5000/api/v1/lineage",
        "jobmanager.webhook.timeout": "10 s",
        "jobmanager.webhook.url": "https://hooks.slack.com/******",
        "slack_webhook": "https://chat:8443?******",
    }


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("sc://spark:15002", "sc://spark:15002"),
        ("sc://spark:15002/;use_ssl=true;x-api-key=abcd", "sc://spark:15002/;use_ssl=******;x-api-key=******"),
        ("sc://spark/;token=ab&cd=e", "sc://spark/;token=******"),
        ("sc://spark;X=abcd;;flag", "sc://spark;X=******;;flag"),
        ("sc://spark/no/path;x=abcd", "sc://spark/no/path;x=******"),
        ("a=1;b=2", "a=1;b=2"),
        ("jdbc:x://me:abcd@host/db?password=abcd&a=b", "jdbc:x://me:******@host/db?password=******&a=b"),
    ],
)
def test_values_inside_of_addresses_are_hidden(value: str, shown: str) -> None:
    assert redacted_value("taskmanager.spark.master", value) == shown
    assert redacted({"taskmanager.spark.master": value}) == {"taskmanager.spark.master": shown}
    assert redacted_text(f"it uses {value} now; x=1") == f"it uses {shown} now; x=1"
