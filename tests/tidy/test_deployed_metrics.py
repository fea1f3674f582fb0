"""Alerts and the dashboard ask for metrics that there are."""

import json
import re

import yaml

from firesteel.model.metrics import METRICS
from tests.tidy.source import ROOT

DEPLOYED = ROOT / "deploy" / "metrics"
NAMES = {metric.prometheus_name for metric in METRICS.values()}


def asked(expressions: list[str]) -> set[str]:
    return {name for text in expressions for name in re.findall(r"firesteel_\w+", text)}


def test_alerts_ask_for_metrics_that_are_declared() -> None:
    groups = yaml.safe_load((DEPLOYED / "alerts.yml").read_text())["groups"]
    found = asked([rule["expr"] for group in groups for rule in group["rules"]])
    assert len(found) >= 8
    assert not found - NAMES


def test_the_dashboard_asks_for_metrics_that_are_declared() -> None:
    panels = json.loads((DEPLOYED / "grafana-dashboard.json").read_text())["panels"]
    found = asked([target["expr"] for panel in panels for target in panel["targets"]])
    assert len(found) >= 15
    assert not found - NAMES
