"""The documents' commands work: the `sh` blocks of a page run from top to bottom, as they are written, in a copy of the files that they
name. Only ports are others. A server that a block starts answers what comes after it, until the next one."""

import contextlib
import itertools
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

import jsonschema
import pytest

from conftest import BINARY, ROOT, free_port
from test_docs import blocks, pages
from test_hub import hub

CUSTOM = BINARY.with_name("custom_node")
GUIDES = ("README.md", "docs/guide/", "docs/concepts/", "docs/reference/kserve.md", "docs/reference/torchserve.md", "demos/", "packaging/")
# Commands that are not tried, by how they begin, and why.
UNTRIED = {
    "make ": "builds",
    "cargo build ": "builds",
    "cargo run --release -p graphmill-engine ": "builds",
    "export CMAKE_CUDA_ARCHITECTURES": "builds",
    "mkdir -p ~/cuda": "changes the home folder",
    "cd demos/": "trains a model",
    "mkdir -p build": "trains a model",
    "python": "trains a model",
    "pip ": "needs a network",
    "hf ": "needs a network",
    "git clone ": "needs a network",
    "graphmill serve model-BF16": "needs what a network has",
    "docker ": "needs a daemon",
    "kubectl ": "needs a cluster",
    "grpcurl ": "is not installed",
    "curl -s http://127.0.0.1:8000/v3/audio/transcriptions": "needs a model that hears",
}
# Lists a graph `mirror` in the configuration.
MIRROR = """sed -i 's|"mediapipe_config_list": .|&{ "name": "mirror", "base_path": "mirror" },|' config.json"""
# What a reader has beside the repository's files when a page begins.
PREPARED = {
    "docs/guide/access.md": "openssl req -x509 -newkey ed25519 -nodes -keyout server.key -out server.crt -subj /CN=localhost 2>/dev/null",
    "docs/guide/get-a-model.md": "graphmill quantize --allow_requantize demos/tiny_chat/model.gguf model-BF16.gguf BF16",
    "docs/guide/llama-server.md": "cp demos/tiny_chat/model.gguf .",
    "docs/guide/models.md": "mkdir -p models/qwen3 && cp demos/tiny_chat/model.gguf models/qwen3/Qwen3-0.6B-Q8_0.gguf",
    "docs/guide/observing.md": "cp graphs/chat/graph.pbtxt graphs/chat/edited.pbtxt",
    "docs/guide/onnx.md": "cp demos/digits/model.onnx .",
    "docs/guide/residence.md": """
        mkdir models && cp demos/tiny_chat/model.gguf models/rare.gguf
        graphmill serve --config_path config.json --rest_port 0 2> log &
        until grep -q 'ready after' log; do sleep 0.1; done; kill %1; wait""",
    "docs/guide/serving.md": "mkdir -p models/org/model && cp graphs/ovms_llm/graph.pbtxt models/org/model",
    "docs/guide/terminal.md": "cp demos/tiny_chat/model.gguf .",
    "docs/guide/testing-graphs.md": """
        echo 'input_stream: "a" input_side_packet: "limit" output_stream: "b" output_side_packet: "limit"
            node { calculator: "PassThroughCalculator" input_stream: "a" output_stream: "b" }' > graph.pbtxt
        echo '{"stream": "a", "value": 1}' > packets.jsonl""",
    "docs/guide/triton.md": """
        mkdir -p models/digits/1 && cp demos/digits/model.onnx models/digits/1
        echo 'platform: "onnxruntime_onnx" max_batch_size: 8
            input { name: "image" data_type: TYPE_FP32 dims: [1, 16, 16] }
            output { name: "scores" data_type: TYPE_FP32 dims: [10] }' > models/digits/config.pbtxt""",
    "docs/reference/kserve.md": MIRROR,
    "docs/reference/torchserve.md": f"""{MIRROR}; mkdir mirror; cp demos/tiny_vision/samples/two.png picture.jpg
        echo 'input_stream: "x" output_stream: "same" node {{ calculator: "PassThroughCalculator" input_stream: "x" output_stream: "same" }}' > mirror/graph.pbtxt""",
}
# Blocks of a page that are files, by the page and how they begin.
FILES = {
    ("docs/guide/access.md", '{\n  "keys": [\n    { "name": "operator"'): "keys.json",
    ("docs/guide/observing.md", '{\n  "graph"'): "try.json",
    ("docs/guide/testing-graphs.md", 'graph = "graph.pbtxt"\n\n[models.llm]'): "graphs/chat/guide.test.toml",
    ("docs/reference/kserve.md", 'input_stream: "x"'): "mirror/graph.pbtxt",
}
# What commands get on standard input.
INPUT = {"chat": "What is a side packet?\n", "--input -": '{"stream": "a", "value": 1}\n'}


def command_lines(text, wanted=("sh",)):
    """The commands of a page's blocks, with the numbers of their lines."""
    for language, first, lines in blocks(text):
        joined, start = "", first
        for number, line in enumerate(lines if language in wanted else [], first):
            start = start if joined else number
            joined += line.removesuffix("\\")
            if not line.endswith("\\") and joined.strip():
                yield start, joined.strip()
                joined = ""


def is_tried(command):
    return not command.startswith(tuple(UNTRIED))


def guides():
    return [str(page) for page in pages() if str(page).startswith(GUIDES)]


def tried_pages():
    return [page for page in guides() if any(is_tried(command) for _, command in command_lines((ROOT / page).read_text()))]


class Reader:
    """Someone who reads a page and types what it says, in a folder of their own."""

    def __init__(self, page, folder):
        self.page, self.folder, self.server = page, folder, None
        self.port = free_port()
        for name in ("config.json", "graphs", "demos", "deploy"):
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, folder / name)
        release = folder / "target" / "release"
        release.mkdir(parents=True)
        for program in (BINARY, CUSTOM):
            (release / program.name).symlink_to(program)
        # Fails where a server refuses.
        (release / "curl").write_text(f'#!/bin/sh\nexec {shutil.which("curl")} --silent --show-error --fail-with-body "$@"\n')
        (release / "curl").chmod(0o755)
        path = f"{release}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}
        text = (ROOT / page).read_text()
        for language, _, lines in blocks(text):
            for (of, start), name in FILES.items():
                if of == page and language and "\n".join(lines).startswith(start):
                    # Digests are shortened in the text.
                    written = re.sub(r'"([0-9a-f]{8})\.\.\."', lambda it: f'"{it[1] * 8}"', "\n".join(lines))
                    (folder / name).parent.mkdir(exist_ok=True)
                    (folder / name).write_text(written)
        prepared = subprocess.run(["bash", "-ec", PREPARED.get(page, ":")], cwd=folder, env=self.environment, check=False)
        assert prepared.returncode == 0

    def types(self, command):
        """The command as it runs here."""
        command = re.sub(r"(127\.0\.0\.1|localhost):8000", rf"\1:{self.port}", command)
        command = re.sub(r"graphmill (chat|top|why)( --[^#]*)?(\s*#.*)?$", rf"graphmill \1 http://127.0.0.1:{self.port} \2", command)
        command = re.sub(r"(graphmill chat) (--image)", rf"\1 http://127.0.0.1:{self.port} \2", command)
        command = command.replace("cargo run --release -p custom_node --", str(CUSTOM)).replace("helm install", "helm template")
        if self.serves(command):
            command = re.sub(r" --rest_port \d+", "", command).partition(" #")[0]
            self.port = free_port()
            command = re.sub(r"--port \d+", lambda _: f"--port {free_port()}", command)
            command = f"exec {command} --rest_port {self.port}"
        return command

    def serves(self, command):
        return bool(re.search(r"(graphmill|custom_node)(\S*) (-- )?serve ", command)) and "--emit_graph" not in command

    def starts(self, command):
        self.stops()
        command = self.types(command)
        self.log = self.folder / "log"
        self.server = subprocess.Popen(["bash", "-c", command], cwd=self.folder, env=self.environment, stderr=self.log.open("wb"))
        deadline = time.monotonic() + 60
        while "ready after" not in self.log.read_text():
            assert self.server.poll() is None and time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.02)

    def stops(self):
        if self.server:
            self.server.terminate()
            assert self.server.wait(60) == 0, self.log.read_text()
            self.server = None

    def does(self, command):
        """Runs a command to its end; one that has none, until it shows something."""
        if self.serves(command):
            return self.starts(command)
        if re.search(r"127\.0\.0\.1:8000|localhost:8000|graphmill (chat|top|why)$", command) and not self.server:
            self.starts("graphmill serve --config_path config.json --allow_graph_edits --rest_port 8000")
        # An answer longer than what fits on its way to a client that does not read: its session stays open.
        long = {"max_tokens": 1500, "ignore_eos": True, "n": 4, "logprobs": True, "top_logprobs": 20, "stream": True}
        held = self.asks("chat", "req-0123", **long) if "/sessions/req-0123" in command else contextlib.nullcontext()
        given = next((text for word, text in INPUT.items() if word in command), "")
        command = self.types(command)
        running = subprocess.Popen(
            ["bash", "-eo", "pipefail", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        if re.search(r"/events|/tap|graphmill (tap|record|top \S+ *$)", command):
            return self.watches(running, command)
        with held:
            shown, said = running.communicate(given, timeout=120)
        assert running.returncode == 0, f"{command}\n{shown}{said}"
        return shown

    def watches(self, running, command):
        """Sends requests until a command that watches the server has shown something, or has ended."""
        deadline = time.monotonic() + 60
        numbers = itertools.count(123)
        while running.poll() is None and not select.select([running.stdout], [], [], 0.2)[0]:
            assert time.monotonic() < deadline, command
            for model in ("chat", "graphmill/tiny-chat"):
                self.asks(model, f"req-{next(numbers):04}").read()
        assert running.poll() in (None, 0), running.stderr.read()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGTERM)
        running.communicate(timeout=60)

    def asks(self, model, request, **more):
        body = json.dumps({"model": model, "max_tokens": 8, "messages": [{"role": "user", "content": "Hello!"}], **more}).encode()
        url = f"http://127.0.0.1:{self.port}/v3/chat/completions"
        return urllib.request.urlopen(urllib.request.Request(url, body, {"x-request-id": request}), timeout=60)


@pytest.fixture
def reader(request, tmp_path):
    someone = Reader(request.param, tmp_path)
    yield someone
    someone.stops()


@pytest.mark.parametrize("reader", tried_pages(), indirect=True, ids=str)
def test_a_page_does_what_it_says(reader, tmp_path_factory):
    with hub(tmp_path_factory.mktemp("cache")) as (environment, _):
        reader.environment |= {name: value for name, value in environment.items() if name.startswith("HF_")}
        for_each_command(reader)


def for_each_command(reader):
    for number, command in command_lines((ROOT / reader.page).read_text()):
        if is_tried(command):
            try:
                reader.does(command)
            except AssertionError as error:
                raise AssertionError(f"{reader.page}:{number}: {error}") from error


def test_every_exception_is_needed():
    commands = [command for page in guides() for _, command in command_lines((ROOT / page).read_text())]
    assert [start for start in UNTRIED if not any(command.startswith(start) for command in commands)] == []


def whole_graphs():
    """Graphs in the documents that are complete: (page and line, text)."""
    for page in guides():
        for language, first, lines in blocks((ROOT / page).read_text()):
            text = "\n".join(lines)
            if language in ("", "pbtxt") and all(re.search(rf"^{field}", text, flags=re.M) for field in ("input_stream:", "output_stream:", "node ")):
                yield f"{page}:{first}", text


@pytest.mark.parametrize(("place", "text"), list(whole_graphs()), ids=lambda value: value if "\n" not in value else "")
def test_graphs_are_right(place, text, tmp_path):
    file = tmp_path / "graph.pbtxt"
    file.write_text(text)
    checked = subprocess.run([CUSTOM, "check", "--skip_models", file], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, f"{place}: {checked.stderr}"


def test_configurations_fit_their_schema():
    schema = json.loads(subprocess.check_output([BINARY, "schema"], text=True, timeout=60))
    seen = 0
    for page in guides():
        for language, _, lines in blocks((ROOT / page).read_text()):
            text = "\n".join(lines)
            if language == "json" and "config_list" in text:
                jsonschema.validate(json.loads(text), schema)
                seen += 1
    assert seen >= 5


@pytest.mark.parametrize("page", ["README.md", "docs/guide/embeddings.md"])
def test_programs_run(page, server):
    for language, _, lines in blocks((ROOT / page).read_text()):
        if language == "python":
            program = "\n".join(lines).replace("http://127.0.0.1:8000", server.url)
            ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
            assert ran.returncode == 0 and ran.stdout.strip(), ran.stderr
