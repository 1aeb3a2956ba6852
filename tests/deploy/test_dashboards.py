"""What a dashboard or an alert asks for is what the stream job exports: names and labels."""

import json
import re
from pathlib import Path

import duckdb
import pytest
import yaml
from compose_file import ours, services
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import sql
from streams.metrics import COUNTERS, GAUGES, HISTOGRAMS, Metrics

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
DASHBOARD = DEPLOY / "grafana" / "dashboards" / "slackwater.json"
# What Prometheus itself adds to every target.
TARGET_LABELS = {"job", "instance"}
BUILT_IN = {"up": TARGET_LABELS}


def exported():
    """Name of each series that a scrape shows -> its labels."""
    metrics = Metrics(CollectorRegistry())
    for name, (_, labels) in COUNTERS.items():
        metrics.count(name, **dict.fromkeys(labels, "x"))
    for name, (_, labels) in GAUGES.items():
        metrics.set(name, 1.0, **dict.fromkeys(labels, "x"))
    for name, (_, labels) in HISTOGRAMS.items():
        metrics.observe(name, 1.0, **dict.fromkeys(labels, "x"))
    text = generate_latest(metrics.registry).decode()
    return {
        sample.name: set(sample.labels) | TARGET_LABELS
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def panels():
    return json.loads(DASHBOARD.read_text())["panels"]


def alerts():
    groups = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def queries():
    """Title -> (query, the texts beside it that name labels)."""
    found = {}
    for panel in panels():
        for target in panel["targets"]:
            title = f"panel {panel['title']}/{target['refId']}"
            found[title] = target["expr"], [target["legendFormat"]]
    for note in json.loads(DASHBOARD.read_text())["annotations"]["list"]:
        found[f"annotation {note['name']}"] = note["expr"], []
    for rule in alerts():
        found[f"alert {rule['alert']}"] = rule["expr"], list(rule["annotations"].values())
    return found


def labels_asked(query, texts):
    in_matchers = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", query)
    in_groups = re.findall(r"(?:by|without|on|ignoring)\s*\(([^)]*)\)", query)
    in_texts = [name for text in texts for name in re.findall(r"{{\s*(?:\$labels\.)?(\w+)", text)]
    return {*in_matchers, *re.findall(r"\w+", " ".join(in_groups)), *in_texts}


@pytest.mark.parametrize("title", queries())
def test_query_asks_only_for_what_is_exported(title):
    query, texts = queries()[title]
    series = exported() | BUILT_IN
    asked = re.findall(r"\bslackwater_\w+|\bup\b", query)
    assert asked, f"{query} names no metric of ours"
    assert [name for name in asked if name not in series] == []
    known = set.union(*(series[name] for name in asked))
    assert labels_asked(query, texts) <= known


def test_a_renamed_metric_would_be_noticed():
    series = exported()
    assert "slackwater_requests_total" in series
    assert series["slackwater_merge_seconds_bucket"] >= {"group", "le"}
    assert "slackwater_requests" not in series


def test_every_metric_of_the_stream_job_is_on_the_dashboard_or_in_an_alert():
    text = " ".join(query for query, _ in queries().values())
    named = {f"slackwater_{name}" for name in [*COUNTERS, *GAUGES, *HISTOGRAMS]}
    assert [name for name in named if name not in text] == []


def test_panels_have_titles_units_and_places_of_their_own():
    cells = set()
    for panel in panels():
        assert panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert x < 24
                assert (x, y) not in cells
                cells.add((x, y))


def test_dashboard_uses_the_datasource_that_is_provisioned():
    folder = DEPLOY / "grafana" / "provisioning"
    (source,) = yaml.safe_load((folder / "datasources" / "prometheus.yml").read_text())[
        "datasources"
    ]
    used = {panel["datasource"]["uid"] for panel in panels()}
    used |= {target["datasource"]["uid"] for panel in panels() for target in panel["targets"]}
    assert used == {source["uid"]}
    (provider,) = yaml.safe_load((folder / "dashboards" / "slackwater.yml").read_text())[
        "providers"
    ]
    grafana = services()["grafana"]
    mounts = [volume.split(":") for volume in grafana["volumes"]]
    (folder_there,) = [there for here, there, *_ in mounts if here.endswith("grafana/dashboards")]
    assert provider["options"]["path"] == folder_there
    home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == f"{folder_there}/{DASHBOARD.name}"


def test_alerts_say_what_is_wrong_and_what_it_means():
    for rule in alerts():
        assert {"summary", "description"} <= set(rule["annotations"])
        assert rule["labels"]["severity"] in {"warning", "critical"}


def test_sql_that_alerts_recommend_runs_on_the_run_log():
    recommended = [
        query
        for rule in alerts()
        for query in re.findall(r"select .+?(?=\.$)", rule["annotations"]["description"])
    ]
    assert len(recommended) == 2
    with duckdb.connect() as connection:
        connection.execute(sql.schema())
        for query in recommended:
            assert connection.execute(query).fetchall() == []


def test_prometheus_reads_the_alerts_and_scrapes_every_stream_service():
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    assert config["rule_files"] == ["alerts.yml"]
    scraped = {
        target
        for job in config["scrape_configs"]
        for static in job.get("static_configs", [])
        for target in static["targets"]
    }
    scraped |= {
        f"{name}:{dns['port']}"
        for job in config["scrape_configs"]
        for dns in job.get("dns_sd_configs", [])
        for name in dns["names"]
    }
    exporting = set()
    for name, service in ours().items():
        if "--metrics-port" in (command := service["command"]):
            exporting.add(f"{name}:{command[command.index('--metrics-port') + 1]}")
    assert scraped == exporting
