"""npm `openai` and `@ai-sdk/openai-compatible` against the server: the tests in `node/`, run by Node's own runner."""

import os
import pathlib
import subprocess

from conftest import MODEL
from test_openai import answer

FOLDER = pathlib.Path(__file__).parent / "node"


def test_node_clients(server, answers):
    environment = os.environ | {
        "GRAPHMILL_URL": server.url,
        "GRAPHMILL_MODEL": MODEL,
        "GRAPHMILL_ANSWER": answer(answers, "What is OpenVINO?"),
        "AI_SDK_LOG_WARNINGS": "false",
    }
    run = subprocess.run(["node", "--test"], cwd=FOLDER, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
