"""Starts the built server once, with the repository's own config.json and model, for clients that we did not write."""

import ipaddress
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = ROOT / "target" / "release" / "graphmill"
MODEL = "graphmill/tiny-chat"
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
# Milliseconds for the slowest machine that tests run on, beside other programs.
PATIENCE = 60_000


def node_tests(*files, **environment):
    """Runs tests of `node/` by Node's own runner: these files, or all that are named `*.test.mjs`."""
    folder = ROOT / "tests" / "clients" / "node"
    variables = os.environ | {"AI_SDK_LOG_WARNINGS": "false"} | environment
    run = subprocess.run(["node", "--test", *files], cwd=folder, env=variables, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


PORTS = itertools.count(20_000 + os.getpid() % 10_000)


def free_port():
    """A port for a server that has to be told one, below those that the system chooses itself."""
    for port in PORTS:
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def printed_url(process, log):
    """Where a server listens that was started with port 0 and prints it into this file."""
    deadline = time.monotonic() + 60
    while not (printed := re.search(r"^https?://\S+$", log.read_text(), flags=re.M)):
        if process.poll() is not None or time.monotonic() > deadline:
            pytest.fail(f"it does not listen; the server's log:\n{log.read_text()}")
        time.sleep(0.02)
    return printed[0]


class Server:
    """A running server: its address, and plain HTTP to it."""

    def __init__(self, config, log, environment=None, flags=()):
        self.log = log
        self.command = [BINARY, "serve", "--config_path", config, "--rest-bind-address", "127.0.0.1", *flags]
        self.environment = {**os.environ, **(environment or {})}
        self.port = 0
        self.start()

    def start(self):
        """Starts the server, another time after `stop` at the same port."""
        known, command = self.port, [*self.command, "--rest_port", str(self.port)]
        self.process = subprocess.Popen(command, stdout=self.log.open("wb"), stderr=subprocess.STDOUT, cwd=ROOT, env=self.environment)
        if not known:
            self.url = printed_url(self.process, self.log)
            self.port = urllib.parse.urlsplit(self.url).port

    def wait_until(self, condition, what, seconds=60):
        """Polls until `condition()` holds; fails with the server's log when it does not in time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            if condition():
                return
            time.sleep(0.02)
        pytest.fail(f"{what}: not within {seconds} s; the server's log:\n{self.log.read_text()}")

    def is_ready(self):
        try:
            return self.get("/v2/health/ready")[0] == 200
        except urllib.error.URLError:
            return False

    def get(self, path):
        """GETs a path: (status, body)."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=30) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def status(self):
        return json.loads(self.get("/v3/status")[1])

    def engine(self):
        """The one engine's counters in /v3/status."""
        (engine,) = self.status()["engines"]
        return engine

    def is_idle(self):
        engine = self.engine()
        return (engine["sequences_running"], engine["sequences_waiting"], engine["kv_cells_used"]) == (0, 0, 0)

    def stop(self):
        """Asks the server to stop, as Ctrl-C does; returns its exit status."""
        self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            pytest.fail(f"the server did not stop; its log:\n{self.log.read_text()}")


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    if not BINARY.exists():
        pytest.fail(f"{BINARY} is missing: run `make build`")
    log = tmp_path_factory.mktemp("server") / "log.txt"
    running = Server(ROOT / "config.json", log)
    running.wait_until(running.is_ready, "ready")
    yield running
    assert running.stop() == 0


@pytest.fixture
def start_server(tmp_path):
    """Starts further servers, each with a config.json, an environment and flags of the test's own."""
    started = []

    def start(config, environment=None, flags=()):
        server = Server(config, tmp_path / f"log-{len(started)}.txt", environment, flags)
        started.append(server)
        return server

    yield start
    for server in started:
        if server.process.poll() is None:
            server.stop()


@pytest.fixture
def serve_one(start_server, tmp_path):
    """Starts a server of one graph of the repository's configuration, with more in its entry."""

    def start(name, **more):
        entries = json.loads((ROOT / "config.json").read_text())
        entries = [*entries.get("mediapipe_config_list", []), *(entry["config"] for entry in entries["model_config_list"])]
        (entry,) = [entry for entry in entries if entry["name"] == name]
        entry = entry | {"base_path": str(ROOT / (entry.get("base_path") or name))} | more
        config = tmp_path / f"{name.replace('/', '-')}-{len(more)}.json"
        config.write_text(json.dumps({"model_config_list": [{"config": entry}]}))
        server = start_server(config)
        server.wait_until(server.is_ready, "ready")
        return server

    return start


@pytest.fixture(scope="session")
def answers():
    """Prompts with the greedy answer that the shipped model gives."""
    return json.loads((ROOT / "demos" / "tiny_chat" / "answers.json").read_text())


# A graph that gives back a tensor and a text.
MIRROR = """
input_stream: "x"
input_stream: "TEXT:text"
output_stream: "same_x"
output_stream: "TEXT:same_text"
node {
  calculator: "PassThroughCalculator"
  input_stream: "x"
  input_stream: "text"
  output_stream: "same_x"
  output_stream: "same_text"
}
graph_options {
  [type.googleapis.com/graphmill.TensorOptions] {
    input { name: "x" datatype: FP32 shape: [-1, 2] }
    output { name: "same_x" datatype: FP32 shape: [-1, 2] }
  }
}
"""


# A graph that gives back a tensor of any kind.
ANY = """
input_stream: "x"
output_stream: "same"
node { calculator: "PassThroughCalculator" input_stream: "x" output_stream: "same" }
"""

# A graph that gives back a tensor, and the one before.
LAST = """
input_stream: "x"
output_stream: "same"
output_stream: "last"
node {
  calculator: "PreviousLoopbackCalculator"
  input_stream: "MAIN:x"
  input_stream: "LOOP:same"
  input_stream_info { tag_index: "LOOP" back_edge: true }
  output_stream: "PREV_LOOP:previous"
}
node {
  calculator: "PassThroughCalculator"
  input_stream: "x"
  input_stream: "previous"
  output_stream: "same"
  output_stream: "last"
}
"""


class TensorServer:
    """A server of graphs: its addresses for REST and for gRPC."""

    # Each server has a port of its own at an address of this process's own: nobody else takes it.
    ports = itertools.count(10_000)

    def __init__(self, folder, texts, more=()):
        graphs = list(more)
        for name, graph in texts.items():
            (folder / name).mkdir(exist_ok=True)
            (folder / name / "graph.pbtxt").write_text(graph)
            graphs.append({"name": name, "base_path": name})
        config = folder / "config.json"
        config.write_text(json.dumps({"model_config_list": [], "mediapipe_config_list": graphs}))
        host, port = ipaddress.ip_address("127.0.0.0") + os.getpid(), next(self.ports)
        self.grpc = f"{host}:{port}"
        command = [BINARY, "serve", "--config_path", config, "--rest_port", "0"]
        command += ["--grpc_bind_address", str(host), "--port", str(port)]
        self.log = folder / "log"
        self.process = subprocess.Popen(command, stdout=self.log.open("wb"), stderr=subprocess.STDOUT, cwd=ROOT)
        self.rest = printed_url(self.process, self.log).removeprefix("http://")
        deadline = time.monotonic() + 60
        while "ready after" not in self.log.read_text():
            assert time.monotonic() < deadline and self.process.poll() is None, self.log.read_text()
            time.sleep(0.02)

    def stop(self):
        self.process.terminate()
        assert self.process.wait(30) == 0


@pytest.fixture(scope="session")
def tensors(tmp_path_factory):
    """A server of the graphs above, and of the shipped one of texts."""
    text = {"name": "text", "base_path": str(ROOT / "graphs" / "text")}
    served = TensorServer(tmp_path_factory.mktemp("tensors"), {"mirror": MIRROR, "any": ANY, "last": LAST}, [text])
    yield served
    served.stop()


@pytest.fixture(scope="module")
def serve_tensors():
    """Starts servers of graphs in a folder, whose texts are given by their names."""
    servers = []

    def start(folder, texts):
        servers.append(TensorServer(folder, texts))
        return servers[-1]

    yield start
    for served in servers:
        served.stop()


# For a module: its event loop is in the way of tests that run their own.
@pytest.fixture(scope="module")
def browser():
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.fail("`chromium` is missing: run `scripts/setup.sh --tests`")
    # Clients of `apart/` have environments of their own, without it.
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        # Without a sandbox, which containers do not let it have.
        started = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def open_page(browser):
    """Opens pages. In the end none of them may have asked anybody but its server, failed, or broken its policy."""
    contexts = []

    def open_page(url, **options):
        context = browser.new_context(**options)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        wrong = []
        page.on("request", lambda request: None if request.url.startswith(("/".join(url.split("/")[:3]), "data:", "blob:")) else wrong.append(f"asked {request.url}"))
        page.on("pageerror", lambda error: wrong.append(f"failed: {error}"))
        # A status that is not a success is an answer, and may be what is tested.
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" and not message.text.startswith("Failed to load resource") else None)
        contexts.append((context, wrong))
        page.goto(url)
        return page

    yield open_page
    for context, wrong in contexts:
        context.close()
        assert wrong == []


@pytest.fixture
def scripted(start_server, tmp_path):
    """Starts a server of the shipped chat graph on a model that gives these replies."""

    def start(replies, flags=()):
        (tmp_path / "model.script.json").write_text(json.dumps({"replies": replies}))
        graph = (ROOT / "graphs" / "chat" / "graph.pbtxt").read_text()
        (tmp_path / "chat").mkdir()
        (tmp_path / "chat" / "graph.pbtxt").write_text(graph.replace("../../demos/tiny_chat", "../model.script.json"))
        config = tmp_path / "config.json"
        config.write_text(json.dumps({"model_config_list": [], "mediapipe_config_list": [{"name": "chat", "base_path": "chat"}]}))
        server = start_server(config, flags=flags)
        server.wait_until(server.is_ready, "ready")
        return server

    return start


def violations(page):
    """What axe finds wrong with a page: rules, and what breaks them."""
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run({ resultTypes: ['violations'] })")
    return [(each["id"], [node["html"] for node in each["nodes"]]) for each in found["violations"]]
