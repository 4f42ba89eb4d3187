"""What is in deploy/ and packaging/ fits the server: manifests are valid, flags and metrics exist, alerts have a runbook."""

import configparser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.request

import kubernetes_validate
import pytest
import yaml

from conftest import BINARY, ROOT
from test_docs import anchors, command_line

MANIFESTS = sorted((ROOT / "deploy/kserve").glob("*.yaml"))
CHART = ROOT / "deploy/helm/graphmill"
EVERYTHING = {
    "autoscaling.enabled": "true",
    "extraArgs[0]": "--log_level=DEBUG",
    "image.pullSecrets[0].name": "registry",
    "keys.existingSecret": "keys",
    "models.existingClaim": "models",
    "serviceMonitor.enabled": "true",
    "serviceMonitor.tokenSecret.name": "metrics",
    "tls.existingSecret": "tls",
}
# Kinds of others, whose schemas are not those of Kubernetes.
FOREIGN = {"ServiceMonitor", "ServingRuntime", "InferenceService"}


def documents(path):
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def helm(*arguments):
    program = shutil.which("helm", path=pathlib.Path(sys.executable).parent)
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60)


def rendered(values):
    """The chart's manifests by kind."""
    given = [word for value in values.items() for word in ("--set", "=".join(value))]
    made = helm("template", "release", str(CHART), *given)
    assert made.returncode == 0, made.stderr
    return {document["kind"]: document for document in yaml.safe_load_all(made.stdout) if document}


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


def test_the_chart_is_clean():
    lint = helm("lint", "--strict", str(CHART))
    assert lint.returncode == 0, lint.stdout


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "everything"])
def test_what_the_chart_makes_is_valid(values):
    manifests = rendered(values)
    assert {"Deployment", "Service", "ConfigMap", "PodDisruptionBudget", "NetworkPolicy"} <= manifests.keys()
    assert ("HorizontalPodAutoscaler" in manifests) == ("ServiceMonitor" in manifests) == bool(values)
    assert ("PersistentVolumeClaim" in manifests) == (not values)
    for kind, manifest in manifests.items():
        if kind not in FOREIGN:
            kubernetes_validate.validate(manifest, "1.37", strict=True)


@pytest.mark.parametrize("value", ["replicas=two", "autoscaler.enabled=true", "drain.graceSeconds=-1"])
def test_wrong_values_of_the_chart_are_refused(value):
    made = helm("template", "release", str(CHART), "--set", value)
    assert made.returncode != 0 and value.partition(".")[0].partition("=")[0] in made.stderr


def test_the_graph_of_the_chart_is_right(tmp_path):
    files = rendered({})["ConfigMap"]["data"]
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    check = [str(BINARY), "check", "--skip_models", str(tmp_path / "config.json")]
    checked = subprocess.run(check, capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stderr


def test_the_autoscaler_asks_for_what_there_is(series):
    metrics = rendered(EVERYTHING)["HorizontalPodAutoscaler"]["spec"]["metrics"]
    assert {metric["pods"]["metric"]["name"] for metric in metrics} <= series


def commands():
    """Each place that starts the server: (where, words)."""
    (container,) = rendered(EVERYTHING)["Deployment"]["spec"]["template"]["spec"]["containers"]
    yield "chart", container["args"]
    (runtime,) = documents(ROOT / "deploy/kserve/serving-runtime.yaml")
    yield "serving-runtime.yaml", runtime["spec"]["containers"][0]["args"]
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


def test_the_service_starts_as_it_is_installed(tmp_path):
    unit = (ROOT / "packaging/systemd/graphmill.service").read_text()
    (variables,) = re.findall(r"^Environment=(.*)$", unit, flags=re.M)
    environment = dict(variable.split("=", 1) for variable in variables.split())
    installed = {"GRAPHMILL_CONFIG_PATH": "/etc/graphmill/config.json", "GRAPHMILL_REST_PORT": "8000"}
    assert environment == installed
    here = {"GRAPHMILL_CONFIG_PATH": str(ROOT / "config.json"), "GRAPHMILL_REST_PORT": "0"}
    words = dict(commands())["graphmill.service"]
    (flags,) = [index for index, word in enumerate(words) if word == "$GRAPHMILL_FLAGS"]
    command = [str(BINARY), *words[:flags], *words[flags + 1 :], "--state_dir", str(tmp_path)]
    server = subprocess.Popen(command, env={**os.environ, **here}, stderr=subprocess.PIPE, text=True)
    said = []
    for line in server.stderr:
        said.append(line)
        if "ready after" in line:
            server.terminate()
    assert server.wait(60) == 0, said
    assert not [line for line in said if "has no effect" in line], said


def seconds(words, flag, default):
    words = " ".join(words).replace("=", " ").split()
    return int(words[words.index(flag) + 1]) if flag in words else default


def test_nobody_kills_a_server_that_still_drains():
    places = dict(commands())
    time_of = lambda where: seconds(places[where], "--drain_delay_seconds", 0) + seconds(places[where], "--shutdown_grace_seconds", 5)
    pod = rendered(EVERYTHING)["Deployment"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] >= time_of("chart") + 6
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
    # Seen once a key was used.
    elsewhere |= {name for name in named if name.startswith("graphmill_key_")}
    assert named - bases - series - elsewhere == set()
