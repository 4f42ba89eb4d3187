"""What is in deploy/ and packaging/ fits the server: manifests are valid, flags and metrics exist, alerts have a runbook."""

import configparser
import json
import re
import urllib.request

import kubernetes_validate
import pytest
import yaml

from conftest import ROOT
from test_docs import anchors, command_line

MANIFESTS = sorted(path for path in (ROOT / "deploy").glob("k*/*.yaml"))
# Kinds of others, whose schemas are not those of Kubernetes.
FOREIGN = {"Kustomization", "ServiceMonitor", "ServingRuntime", "InferenceService"}


def documents(path):
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


@pytest.fixture(scope="module")
def series(server):
    """The names of all samples that a scrape of the server can have."""
    with urllib.request.urlopen(f"{server.url}/metrics", timeout=30) as response:
        text = response.read().decode()
    names = set()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, flags=re.M):
        names |= {name + suffix for suffix in (("_bucket", "_sum", "_count") if kind == "histogram" else ("",))}
    return names


def metrics_of(expression):
    return set(re.findall(r"\b(?:graphmill_|vllm:|ovms_)[a-z0-9_]+", expression))


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_are_valid(path):
    for document in documents(path):
        assert document["apiVersion"]
        if document["kind"] not in FOREIGN:
            kubernetes_validate.validate(document, "1.37", strict=True)


def test_a_wrong_manifest_is_found():
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": {"ports": [{"prot": 80}]}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(service, "1.37", strict=True)


def test_kustomization_names_files():
    folder = ROOT / "deploy/kubernetes"
    (kustomization,) = documents(folder / "kustomization.yaml")
    named = kustomization["resources"] + [file for map in kustomization["configMapGenerator"] for file in map["files"]]
    assert [name for name in named if not (folder / name).exists()] == []


def commands():
    """Each place that starts the server: (where, words)."""
    for path in MANIFESTS:
        for document in documents(path):
            spec = document.get("spec", {})
            pod = spec.get("template", {}).get("spec", spec)
            for container in pod.get("containers", []) if isinstance(pod, dict) else []:
                yield path.name, container["args"]
    for name in ("Dockerfile", "Dockerfile.cuda"):
        (words,) = re.findall(r"^CMD (\[.*\])$", (ROOT / name).read_text(), flags=re.M)
        yield name, json.loads(words)
    unit = (ROOT / "packaging/systemd/graphmill.service").read_text()
    (start,) = re.findall(r"^ExecStart=/usr/bin/graphmill (.*)$", unit, flags=re.M)
    (flags,) = re.findall(r"^GRAPHMILL_FLAGS=(.*)$", (ROOT / "packaging/debian/default").read_text(), flags=re.M)
    yield "graphmill.service", start.split() + flags.split()


def test_flags_exist():
    known = command_line()["serve"]
    seen = 0
    for where, words in commands():
        assert words[0] == "serve", where
        flags = {word.partition("=")[0].replace("-", "_") for word in words if word.startswith("--")}
        seen += len(flags)
        assert flags <= known, where
    assert seen > 20


def seconds(words, flag, default):
    words = " ".join(words).replace("=", " ").split()
    return int(words[words.index(flag) + 1]) if flag in words else default


def test_nobody_kills_a_server_that_still_drains():
    places = dict(commands())
    time_of = lambda where: seconds(places[where], "--drain_delay_seconds", 0) + seconds(places[where], "--shutdown_grace_seconds", 5)
    (deployment,) = documents(ROOT / "deploy/kubernetes/deployment.yaml")
    assert deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] >= time_of("deployment.yaml") + 6
    (service,) = documents(ROOT / "deploy/kserve/inference-service.yaml")
    assert service["spec"]["predictor"]["terminationGracePeriodSeconds"] >= time_of("serving-runtime.yaml") + 6
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str
    unit.read(ROOT / "packaging/systemd/graphmill.service")
    assert int(unit["Service"]["TimeoutStopSec"].rstrip("s")) >= time_of("graphmill.service") + 6


def rules():
    (file,) = documents(ROOT / "deploy/prometheus/alerts.yaml")
    return [rule for group in file["groups"] for rule in group["rules"]]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_alerts_ask_for_what_there_is_and_have_a_runbook(rule, series):
    assert metrics_of(rule["expr"]) - series == set()
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert anchor == rule["alert"].lower() and anchor in anchors(ROOT / page)


def test_the_dashboard_asks_for_what_there_is(series):
    dashboard = json.loads((ROOT / "deploy/grafana/graphmill.json").read_text())
    asked = set()
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            asked |= metrics_of(target["expr"])
    for variable in dashboard["templating"]["list"]:
        asked |= metrics_of(variable["query"])
    assert len(asked) > 20 and asked - series == set()


def test_documented_metrics_exist(series):
    text = (ROOT / "docs/reference/metrics.md").read_text()
    named = {name for line in text.splitlines() for name in metrics_of(line)}
    bases = {re.sub(r"_(bucket|sum|count)$", "", name) for name in series}
    elsewhere = {"ovms_graph_processing_time_us", "ovms_request_time_us"}
    assert named - bases - series - elsewhere == set()
