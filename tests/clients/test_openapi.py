"""schemathesis against the server's own OpenAPI document, with every check: what fits a schema is accepted, what does not is refused, and no
request gets a 5xx or a status that the document does not name."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from conftest import MODEL, ROOT

SCHEMATHESIS = pathlib.Path(sys.executable).with_name("schemathesis")
# For longer runs: 50 make some 4,000 cases.
EXAMPLES = os.environ.get("GRAPHMILL_OPENAPI_EXAMPLES", "50")


@pytest.fixture
def scripted(start_server, tmp_path):
    """The shipped chat graph on a model that follows a script: what is made of thousands of odd requests costs nothing."""
    (tmp_path / "model.script.json").write_text(json.dumps({"replies": [{"text": "Hello there."}]}))
    graph = (ROOT / "graphs" / "chat" / "graph.pbtxt").read_text()
    assert "../../demos/tiny_chat" in graph
    (tmp_path / "chat").mkdir()
    (tmp_path / "chat" / "graph.pbtxt").write_text(graph.replace("../../demos/tiny_chat", "../model.script.json"))
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"model_config_list": [], "mediapipe_config_list": [{"name": "chat", "base_path": "chat"}]}))
    server = start_server(config)
    server.wait_until(server.is_ready, "ready")
    return server


# What no schema describes: the playground takes a graph, and transcriptions a file of sound.
BEYOND = ["/v3/playground", "/v3/audio/transcriptions"]
OTHERS = [word for path in BEYOND for word in ("--exclude-path", path)]
THESE = [word for path in BEYOND for word in ("--include-path", path)]


@pytest.mark.parametrize("paths", [OTHERS, [*THESE, "--exclude-checks", "positive_data_acceptance"]])
def test_schemathesis(scripted, tmp_path, paths):
    command = [
        SCHEMATHESIS, "run", scripted.url + "/openapi.json", "--max-examples", EXAMPLES, "--seed", "1",
        "--phases", "coverage,fuzzing", "--request-timeout", "60", "--generation-database", "none", "--no-color", *paths,
        # These go on until their viewer leaves.
        "--exclude-path-regex", "/(events|tap)$",
    ]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
    scripted.wait_until(scripted.is_idle, "nothing left of the requests")


def test_the_document_names_what_is_served(server):
    status, body = server.get("/openapi.json")
    document = json.loads(body)
    assert status == 200 and document["openapi"].startswith("3.1")
    chat = document["paths"]["/v3/chat/completions"]["post"]
    schema = chat["requestBody"]["content"]["application/json"]["schema"]
    assert MODEL in schema["properties"]["model"]["enum"]
    assert schema["required"] == ["model", "messages"]
    assert {"200", "400", "404", "413", "429", "503"} <= set(chat["responses"])


def test_the_page_needs_nothing_from_elsewhere(server):
    status, page = server.get("/docs")
    assert status == 200 and "/openapi.json" in page
    assert "http://" not in page and "https://" not in page
