"""curl and raw sockets: bytes on the wire, clients that leave, bodies that are garbage."""

import concurrent.futures
import http.client
import json
import os
import pathlib
import subprocess

import pytest

from conftest import BINARY, MODEL, ROOT

LONG = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "Tell me a story"}],
    "ignore_eos": True,
    "max_tokens": 1500,
}


def post(server, body, path="/v3/chat/completions"):
    """POSTs and returns the connection, before the answer is read."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("POST", path, data, {"content-type": "application/json"})
    return connection


def answer(connection):
    """The (status, body) of a request made with `post`."""
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, body


def test_curl_streams_events(server):
    body = {"model": MODEL, "stream": True, "temperature": 0, "messages": [{"role": "user", "content": "Say this is a test"}]}
    command = ["curl", "-sN", "-D", "-", server.url + "/v3/chat/completions", "-H", "content-type: application/json", "-d", json.dumps(body)]
    output = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    head, _, stream = output.replace("\r\n", "\n").partition("\n\n")
    headers = dict(line.lower().split(": ", 1) for line in head.splitlines()[1:])
    assert head.startswith("HTTP/1.1 200")
    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert headers["cache-control"] == "no-cache"
    assert headers["x-request-id"]
    events = stream.strip().split("\n\n")
    assert all(event.startswith("data: ") and "\n" not in event for event in events)
    assert events[-1] == "data: [DONE]"
    chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-1]]
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks) == "This is a test."
    assert not any("usage" in chunk for chunk in chunks)


def test_config_in_the_shape_of_openvino_model_server(server):
    status, body = server.get("/v1/config")
    assert status == 200
    version = {"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": "OK"}}
    assert json.loads(body)[MODEL] == {"model_version_status": [version]}


def test_health(server):
    assert server.get("/v2/health/live")[0] == 200
    assert server.get("/v2/health/ready")[0] == 200


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[1]", b'"text"', b"\xff\xfe\x00", b'{"model": 1}', b"[" * 100_000, b'{"messages": []}'],
    ids=["empty", "cut", "list", "string", "binary", "model-type", "deep", "no-model"],
)
def test_garbage_is_a_400(server, body):
    status, text = answer(post(server, body))
    assert status == 400
    error = json.loads(text)["error"]
    assert error["type"] == "invalid_request_error" and error["message"]


def test_a_10_mb_prompt_is_refused_and_disturbs_nobody(server):
    huge = {"model": MODEL, "messages": [{"role": "user", "content": "word " * 2_000_000}]}
    small = {"model": MODEL, "temperature": 0, "messages": [{"role": "user", "content": "Say this is a test"}]}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        refused = pool.submit(lambda: answer(post(server, huge)))
        served = pool.submit(lambda: answer(post(server, small)))
        status, text = served.result()
        assert status == 200
        assert json.loads(text)["choices"][0]["message"]["content"] == "This is a test."
        status, text = refused.result()
        assert status in (400, 413)
        assert json.loads(text)["error"]["code"] in ("context_length_exceeded", "request_too_large")


def test_leaving_while_decoding_frees_everything(server):
    connection = post(server, LONG | {"stream": True})
    response = connection.getresponse()
    assert response.readline().startswith(b"data: ")
    assert server.engine()["kv_cells_used"] > 0
    response.close()
    connection.close()
    server.wait_until(server.is_idle, "idle after a stream's client left", seconds=5)


def test_leaving_a_unary_request_frees_everything(server):
    connection = post(server, LONG)
    server.wait_until(lambda: server.engine()["sequences_running"] > 0, "running", seconds=10)
    connection.close()
    server.wait_until(server.is_idle, "idle after a unary client left", seconds=5)


def test_leaving_in_a_burst_frees_everything(server):
    """Some of these wait, some prefill, some decode when their clients leave."""
    prompt = {"messages": [{"role": "user", "content": "Tell me a story " * 100}]}
    burst = [post(server, LONG | prompt | {"stream": bool(i % 2)}) for i in range(48)]
    server.wait_until(lambda: server.engine()["sequences_running"] > 0, "running", seconds=10)
    for connection in burst:
        connection.close()
    server.wait_until(server.is_idle, "idle after a burst left", seconds=10)
    graphs = server.status()["graphs"]
    assert all(graph["open_sessions"] == 0 for graph in graphs)


def test_the_published_openvino_graph_runs_verbatim(start_server, tmp_path):
    shared = pathlib.Path(os.environ.get("GRAPHMILL_SHARED", ROOT.parent / "shared"))
    demo = shared / "reference" / "ovms_demo"
    if not demo.is_dir():
        pytest.skip(f"{demo} is absent")
    config = json.loads((demo / "config.json").read_text())
    name = config["mediapipe_config_list"][0]["name"]
    folder = tmp_path / config["mediapipe_config_list"][0]["base_path"]
    folder.mkdir()
    (tmp_path / "config.json").write_bytes((demo / "config.json").read_bytes())
    (folder / "graph.pbtxt").write_bytes((demo / "graph.pbtxt").read_bytes())
    (folder / "model.gguf").symlink_to(ROOT / "demos" / "tiny_chat" / "model.gguf")

    server = start_server(tmp_path / "config.json")
    server.wait_until(server.is_ready, "ready")
    body = {"model": name, "temperature": 0, "messages": [{"role": "user", "content": "Say this is a test"}]}
    status, text = answer(post(server, body))
    assert status == 200
    assert json.loads(text)["choices"][0]["message"]["content"] == "This is a test."


def test_a_config_that_names_a_missing_file(start_server, tmp_path):
    config = {"model_config_list": [], "mediapipe_config_list": [{"name": "gone", "base_path": "nowhere"}]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    server = start_server(tmp_path / "config.json")
    # There is nothing else to serve.
    assert server.process.wait(timeout=20) == 1
    assert "nowhere" in server.log.read_text()


def test_a_config_with_an_unknown_key_is_fatal(tmp_path):
    (tmp_path / "config.json").write_text('{\n  "model_config_list": [],\n  "mediapipe_config_lst": []\n}\n')
    run = subprocess.run([BINARY, "serve", "--config_path", tmp_path / "config.json"], capture_output=True, text=True, timeout=60)
    assert run.returncode != 0
    assert "mediapipe_config_lst" in run.stderr and "mediapipe_config_list" in run.stderr
