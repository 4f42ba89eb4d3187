"""Models computed by ONNX Runtime, the library of PyPI's package, beside the same models computed by tract."""

import base64
import concurrent.futures
import importlib.util
import json
import pathlib
import random
import urllib.request

import pytest

from conftest import ROOT

DIGITS = ROOT / "demos" / "digits"
TOPICS = ROOT / "demos" / "text_classifier"
TEXTS = ["I cannot log in", "Where is my parcel?", "My invoice is wrong", "The screen stays black", "Please close my account"]


def library():
    """The library in the package, which need not be importable for that."""
    (folder,) = importlib.util.find_spec("onnxruntime").submodule_search_locations
    (found,) = pathlib.Path(folder, "capi").glob("libonnxruntime.so*")
    return found


@pytest.fixture
def config(tmp_path):
    """A configuration of the demos' graphs, each once for tract and once for ONNX Runtime."""
    graphs = []
    for name, path in [("digits", DIGITS / "graph.pbtxt"), ("topics", TOPICS / "graph.pbtxt"), ("batched", TOPICS / "batched.pbtxt")]:
        text = path.read_text().replace('"labels.txt"', json.dumps(str(TOPICS / "labels.txt")))
        for runtime in ["TRACT", "ONNX_RUNTIME"]:
            model = f"model_path: {json.dumps(str(path.parent / 'model.onnx'))} runtime: {runtime}"
            graph = tmp_path / f"{name}-{runtime}.pbtxt"
            graph.write_text(text.replace('model_path: "model.onnx"', model))
            graphs.append({"name": f"{name}-{runtime}", "base_path": ".", "graph_path": graph.name})
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"model_config_list": [], "mediapipe_config_list": graphs}))
    return config


def infer(server, graph, name, data):
    """The outputs of a graph by name."""
    body = {"inputs": [{"name": name, "datatype": "BYTES", "shape": [len(data)], "data": data}]}
    request = urllib.request.Request(f"{server.url}/v2/models/{graph}/infer", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=60) as response:
        return {output["name"]: output["data"] for output in json.load(response)["outputs"]}


def same(server, graph, name, data):
    """Asks both runtimes."""
    by_tract, by_runtime = (infer(server, f"{graph}-{runtime}", name, data) for runtime in ["TRACT", "ONNX_RUNTIME"])
    assert by_runtime.pop("share") == pytest.approx(by_tract.pop("share"), abs=1e-4)
    assert by_runtime == by_tract
    return by_runtime


def test_both_runtimes_say_the_same(start_server, config):
    server = start_server(config, {"ORT_DYLIB_PATH": str(library())})
    server.wait_until(server.is_ready, "ready")
    for digit in range(10):
        picture = base64.b64encode((DIGITS / "samples" / f"{digit}.png").read_bytes()).decode()
        assert same(server, "digits", "image", [picture]) == {"digit": [str(digit)]}

    def ask(seed):
        dice = random.Random(seed)
        texts = dice.choices(TEXTS, k=dice.randrange(1, 5))
        return same(server, dice.choice(["topics", "batched"]), "text", texts)

    with concurrent.futures.ThreadPoolExecutor(16) as clients:
        assert all(answer["topic"] for answer in clients.map(ask, range(200)))
    assert server.stop() == 0


def test_what_a_tensor_may_not_be_is_told_the_same_way(start_server, config):
    """Checks of the graph, and of requests, do not depend on the runtime."""
    folder = config.parent
    graph = folder / "topics-ONNX_RUNTIME.pbtxt"
    text = graph.read_text()
    graph.write_text(text.replace('input_stream: "FEATURES:features"', 'input_stream: "FEATURES:text"', 1))
    batched = folder / "batched-ONNX_RUNTIME.pbtxt"
    wrong = 'tag_to_input_tensor_names { key: "FEATURES" value: "pixels" }'
    batched.write_text(batched.read_text().replace("runtime: ONNX_RUNTIME", f"runtime: ONNX_RUNTIME {wrong}"))
    server = start_server(config, {"ORT_DYLIB_PATH": str(library())})
    server.wait_until(lambda: "`pixels`" in server.log.read_text(), "the graph is refused")
    assert "the model has no input `pixels`, but `features`" in server.log.read_text()


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("missing.so", "No such file"),
        ("text.so", "file too short"),
        ("libonnxruntime_providers_shared.so", "it is another library"),
        ("old.so", "it is of version 1.9.0, but 1.17 is the oldest supported one"),
    ],
)
def test_a_library_that_is_none_is_told_by_its_path(start_server, config, tmp_path, path, why):
    if path == "text.so":
        (tmp_path / path).write_text("no library")
    if path == "old.so":
        old = library().read_bytes().replace(b"1.32.0\0", b"1.9.0\0\0")
        (tmp_path / path).write_bytes(old)
    folder = library().parent if path.startswith("lib") else tmp_path
    server = start_server(config, {"ORT_DYLIB_PATH": str(folder / path)})
    server.wait_until(lambda: why in server.log.read_text(), "the library is refused")
    log = server.log.read_text()
    assert f"cannot load ONNX Runtime from `{folder / path}`, which `ORT_DYLIB_PATH` names: " in log
    assert "panicked" not in log
    # Graphs of the other runtime are served.
    server.wait_until(lambda: server.get("/v2/models/digits-TRACT/ready")[0] == 200, "tract is ready")


def test_without_a_name_the_system_is_asked_for_the_library(start_server, config, tmp_path):
    (tmp_path / "system").mkdir()
    (tmp_path / "system" / "libonnxruntime.so").symlink_to(library())
    server = start_server(config, {"LD_LIBRARY_PATH": str(tmp_path / "system")})
    server.wait_until(server.is_ready, "ready")
    assert same(server, "topics", "text", TEXTS[:1])["topic"]


def test_what_the_system_says_of_its_library_is_told(start_server, config, tmp_path):
    (tmp_path / "libonnxruntime.so").write_text("no library")
    server = start_server(config, {"LD_LIBRARY_PATH": str(tmp_path)})
    server.wait_until(lambda: "file too short" in server.log.read_text(), "the library is refused")
    said = "cannot load ONNX Runtime: searched the system's libraries for `libonnxruntime.so`, because `ORT_DYLIB_PATH` is not set: "
    assert said in server.log.read_text()
