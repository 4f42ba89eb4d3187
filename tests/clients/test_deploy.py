"""What is in deploy/ and packaging/ fits the server: manifests are valid, flags and metrics exist, alerts have a runbook."""

import configparser
import contextlib
import hashlib
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request

import kubernetes_validate
import pytest
import yaml

from conftest import BINARY, MODEL as MODEL_NAME, ROOT, free_port
from test_docs import anchors, command_line
from test_hub import hub

MANIFESTS = sorted((ROOT / "deploy/kserve").glob("*.yaml"))
CHART = ROOT / "deploy/helm/graphmill"
EVERYTHING = {
    "autoscaling": {"enabled": True},
    "extraArgs": ["--log_level=DEBUG", "--jwt_jwks=https://login.example.com/jwks.json"],
    "extraVolumeMounts": [{"name": "adapters", "mountPath": "/adapters"}],
    "extraVolumes": [{"name": "adapters", "persistentVolumeClaim": {"claimName": "adapters"}}],
    "image": {"pullSecrets": [{"name": "registry"}], "repository": "registry.example.com/graphmill", "tag": "mine"},
    "ingress": {"enabled": True, "className": "nginx", "host": "chat.example.com", "tlsSecret": "chat", "annotations": {"a/b": "c"}},
    "keys": {"existingSecret": "keys"},
    "model": {"existingClaim": "models"},
    "podAnnotations": {"a/b": "c"},
    "runtimeClassName": "gvisor",
    "serviceAccount": {"annotations": {"a/b": "c"}},
    "serviceMonitor": {"enabled": True, "tokenSecret": {"name": "metrics"}},
    "tls": {"existingSecret": "tls"},
}
MODEL = (ROOT / "demos/tiny_chat/model.gguf").read_bytes()
DOWNLOAD = {"model": {"url": "http://models.example.com:8080/tiny/model.gguf?download=true", "sha256": hashlib.sha256(MODEL).hexdigest()}}
NAMED = {"model": {"source": "Qwen/Qwen3-0.6B-GGUF:Q8_0"}, "env": [{"name": "HF_TOKEN", "value": "secret"}]}
GRAPHS = {
    "config.json": json.dumps({"model_config_list": [], "mediapipe_config_list": [{"name": "chat", "base_path": ".", "graph_path": "chat.pbtxt"}]}),
    "chat.pbtxt": (ROOT / "deploy/kserve/graph.pbtxt").read_text().replace("/mnt/models", "/usr/share/graphmill/demos/tiny_chat"),
}
VARIANTS = {
    "defaults": {},
    "a download": DOWNLOAD,
    "a download into a claim": {"replicas": 2, "model": {"url": "https://models.example.com/model.gguf", "existingClaim": "models"}},
    "a model by name": NAMED,
    "a configuration": {"config": GRAPHS, "networkPolicy": {"enabled": False}, "serviceAccount": {"create": False}},
    "everything": EVERYTHING,
}
# Kinds of others, whose schemas are not those of Kubernetes.
FOREIGN = {"ServiceMonitor", "ServingRuntime", "InferenceService"}


def documents(path):
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def helm(verb, values, *flags):
    program = shutil.which("helm", path=pathlib.Path(sys.executable).parent)
    chart = ["release", str(CHART)] if verb == "template" else [str(CHART)]
    command = [program, verb, *chart, "--values", "-", *flags]
    return subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, timeout=60)


def rendered(values):
    """The chart's manifests by kind."""
    made = helm("template", values)
    assert made.returncode == 0, made.stderr
    return {document["kind"]: document for document in yaml.safe_load_all(made.stdout) if document}


def pod(values):
    return rendered(values)["Deployment"]["spec"]["template"]["spec"]


def container(values):
    (container,) = pod(values)["containers"]
    return container


@pytest.fixture(scope="module")
def series(server):
    """The names of all samples that a scrape of the server can have, once it has answered something."""
    question = {"model": MODEL_NAME, "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 2}
    request = urllib.request.Request(f"{server.url}/v3/chat/completions", json.dumps(question).encode(), {"content-type": "application/json"})
    urllib.request.urlopen(request, timeout=30).close()
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


@pytest.mark.parametrize("values", VARIANTS.values(), ids=VARIANTS.keys())
def test_the_chart_is_clean(values):
    lint = helm("lint", values, "--strict")
    assert lint.returncode == 0, lint.stdout


@pytest.mark.parametrize("values", VARIANTS.values(), ids=VARIANTS.keys())
def test_what_the_chart_makes_is_valid(values):
    manifests = rendered(values)
    kinds = {"Deployment", "Service", "PodDisruptionBudget"}
    kinds |= {"ServiceAccount", "NetworkPolicy"} if "networkPolicy" not in values else {"ConfigMap"}
    kinds |= {"HorizontalPodAutoscaler", "ServiceMonitor", "Ingress"} if "ingress" in values else set()
    kinds |= {"PersistentVolumeClaim"} if values in (DOWNLOAD, NAMED) else set()
    assert manifests.keys() == kinds
    for kind, manifest in manifests.items():
        if kind not in FOREIGN:
            kubernetes_validate.validate(manifest, "1.37", strict=True)
    pod = manifests["Deployment"]["spec"]["template"]["spec"]
    mounted = [mount["name"] for each in pod.get("initContainers", []) + pod["containers"] for mount in each["volumeMounts"]]
    assert set(mounted) == {volume["name"] for volume in pod["volumes"]}


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"replicas": "two"}, "replicas"),
        ({"autoscaler": {"enabled": True}}, "autoscaler"),
        ({"drain": {"delaySeconds": -1}}, "drain.delaySeconds"),
        ({"config": {"graph.pbtxt": ""}}, "config.json is required"),
        ({"model": {"url": "hf.co/some/model"}}, "model.url"),
        ({"model": {"sha256": "none"}}, "model.sha256"),
        ({"model": {"source": "org"}}, "model.source"),
        ({"model": {**DOWNLOAD["model"], **NAMED["model"]}}, "both say what to download"),
        ({**NAMED, "replicas": 2}, "several pods need a volume that several nodes can mount"),
        ({**DOWNLOAD, "replicas": 2}, "several pods need a volume that several nodes can mount"),
        ({**DOWNLOAD, "autoscaling": {"enabled": True}}, "several pods need a volume that several nodes can mount"),
    ],
)
def test_wrong_values_of_the_chart_are_refused(values, reason):
    made = helm("template", values)
    assert made.returncode != 0 and reason in made.stderr


def test_versions_are_those_of_the_program():
    version = re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), flags=re.M)[1]
    (chart,) = documents(CHART / "Chart.yaml")
    assert chart["appVersion"] == version
    assert container({})["image"] == f"graphmill:{version}"
    assert f"image.version={version}" in (ROOT / "Dockerfile").read_text()
    (runtime,) = documents(ROOT / "deploy/kserve/serving-runtime.yaml")
    assert runtime["spec"]["containers"][0]["image"].endswith(f"/graphmill:{version}")
    assert f'version = "{version}"' in (ROOT / "packaging/python/pyproject.toml").read_text()


def test_pods_reach_what_they_ask_and_no_more():
    def ports(values):
        return [port["port"] for port in rendered(values)["NetworkPolicy"]["spec"]["egress"][0]["ports"]]

    assert ports({}) == [53, 53, 4317, 4318]
    assert ports(DOWNLOAD) == [53, 53, 4317, 4318, 8080]
    assert ports(VARIANTS["a download into a claim"])[-1] == 443
    assert ports(NAMED)[-1] == 443
    assert ports({"extraArgs": ["--allowed_media_domains", "a.example.com"]})[-1] == 443
    assert ports(EVERYTHING)[-1] == 443


class Folder(http.server.SimpleHTTPRequestHandler):
    """Serves the model's file, and counts."""

    asked = 0

    def do_GET(self):
        Folder.asked += 1
        self.send_response(200)
        self.end_headers()
        self.wfile.write(MODEL)

    def log_message(self, *_):
        pass


def test_the_init_container_downloads_the_model_once(tmp_path):
    listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Folder)
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    (download,) = pod(DOWNLOAD)["initContainers"]
    given = {entry["name"]: entry["value"] for entry in download["env"]}
    assert f"--model_path={given['FILE']}" in container(DOWNLOAD)["args"]
    file = tmp_path / given["FILE"].removeprefix("/models/")
    given |= {"FILE": str(file), "URL": given["URL"].replace("models.example.com:8080", f"127.0.0.1:{listener.server_port}")}

    def run(**changed):
        command = [*download["command"], *download["args"]]
        return subprocess.run(command, env={**os.environ, **given, **changed}, capture_output=True, text=True, timeout=60)

    wrong = run(SHA256="0" * 64)
    assert wrong.returncode != 0 and not list(tmp_path.iterdir()), wrong.stderr
    for asked in (2, 2):
        assert run().returncode == 0
        assert Folder.asked == asked and list(tmp_path.iterdir()) == [file]
    file.write_bytes(b"another")
    assert run(SHA256="").returncode == 0 and file.read_bytes() == b"another"
    assert run().returncode == 0 and file.read_bytes() == MODEL
    listener.shutdown()


def test_the_init_container_pulls_a_model_that_the_server_finds_offline(tmp_path):
    (download,) = pod(NAMED)["initContainers"]
    assert download["image"] == container(NAMED)["image"]
    words = [word.replace("=8000", f"={free_port()}").replace("0.0.0.0", "127.0.0.1") for word in container(NAMED)["args"]]
    with hub(tmp_path) as (environment, asked):

        def with_variables(of):
            return environment | {entry["name"]: entry["value"].replace("/models", str(tmp_path)) for entry in of["env"]}

        pulled = subprocess.run([BINARY, *download["args"]], env=with_variables(download), capture_output=True, text=True, timeout=60)
        assert pulled.returncode == 0, pulled.stderr
        asked.clear()
        with serving(words, tmp_path, with_variables(container(NAMED))):
            assert not asked


@contextlib.contextmanager
def serving(words, folder, environment=None):
    """A server that is ready, until it is no longer used."""
    log = folder / "log"
    server = subprocess.Popen([BINARY, *words, "--state_dir", folder], stderr=log.open("wb"), env=environment)
    deadline = time.monotonic() + 60
    while "ready after" not in log.read_text():
        assert server.poll() is None and time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    yield server
    server.terminate()
    assert server.wait(60) == 0, log.read_text()


@pytest.mark.parametrize("name", ["defaults", "a download", "a configuration"])
def test_pods_of_the_chart_become_ready(tmp_path, name):
    """Runs the container's command, with the folders of the image here, and probes it as Kubernetes does."""
    values = VARIANTS[name]
    listening = free_port()
    for file, text in values.get("config", {}).items():
        (tmp_path / file).write_text(text.replace("/usr/share/graphmill", str(ROOT)))
    here = {"/usr/share/graphmill": ROOT, "/etc/graphmill": tmp_path, "/models": ROOT / "demos/tiny_chat", "=8000": f"={listening}"}
    here |= {"0.0.0.0": "127.0.0.1"}
    words = container(values)["args"]
    for there, path in here.items():
        words = [word.replace(there, str(path)) for word in words]
    def answers(probe):
        (port,) = container(values)["ports"]
        assert probe["port"] == port["name"] and port["containerPort"] == 8000
        request = urllib.request.Request(f"http://127.0.0.1:{listening}{probe['path']}", headers={"host": "10.0.0.7:8000"})
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status == 200

    with serving(words, tmp_path):
        assert all(answers(container(values)[kind]["httpGet"]) for kind in ("startupProbe", "livenessProbe", "readinessProbe"))
        with urllib.request.urlopen(f"http://127.0.0.1:{listening}/v3/models", timeout=30) as response:
            assert json.load(response)["data"][0]["id"] == "chat"


@pytest.mark.parametrize("by", ["flags", "variables"])
@pytest.mark.parametrize("tls", [False, True])
def test_the_health_check_of_the_image_follows_the_server(tmp_path, by, tls):
    settings = {"rest_port": str(free_port())}
    if tls:
        settings |= {"tls_cert_file": str(tmp_path / "server.crt"), "tls_key_file": str(tmp_path / "server.key")}
        files = ["-out", settings["tls_cert_file"], "-keyout", settings["tls_key_file"]]
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-subj", "/CN=localhost", *files], check=True, capture_output=True)
    variables = {f"GRAPHMILL_{name.upper()}": value for name, value in settings.items()}
    flags = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", value)]
    words = ["serve", str(ROOT / "demos/tiny_chat/model.gguf")]
    # As in the image, both see the variables of the container.
    environment = {**os.environ, **(variables if by == "variables" else {})}
    health = ROOT / "packaging/container/health"

    def is_healthy(process):
        return subprocess.run([health, str(process)], env=environment, timeout=60).returncode == 0

    with serving([*words, *(flags if by != "variables" else [])], tmp_path, environment) as process:
        assert is_healthy(process.pid)
        process.send_signal(signal.SIGSTOP)
        assert not is_healthy(process.pid)
        process.send_signal(signal.SIGCONT)


def test_the_image_has_the_model_of_the_chart():
    (model,) = [word.partition("=")[2] for word in container({})["args"] if word.startswith("--model_path=")]
    folder, name = model.removeprefix("/usr/share/graphmill/").rsplit("/", 1)
    for dockerfile in ("Dockerfile", "Dockerfile.cuda"):
        assert re.search(rf"^COPY {folder}/{name} .* /usr/share/graphmill/{folder}/$", (ROOT / dockerfile).read_text(), flags=re.M)


def test_the_autoscaler_asks_for_what_there_is(series):
    metrics = rendered(EVERYTHING)["HorizontalPodAutoscaler"]["spec"]["metrics"]
    assert {metric["pods"]["metric"]["name"] for metric in metrics} <= series


def commands():
    """Each place that starts the server: (where, words)."""
    for name, values in VARIANTS.items():
        yield f"chart with {name}", container(values)["args"]
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
    assert pod({})["terminationGracePeriodSeconds"] >= time_of("chart with defaults") + 6
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
