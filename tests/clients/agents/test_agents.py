"""Coding agents: npm `@continuedev/cli`, and npm `opencode-ai` over the three APIs that it has."""

import json
import pathlib

import pytest

from coder import MADE, PROMPT, call, leave_the_network, run, serve

MODULES = pathlib.Path(__file__).parent / "node_modules"
CONTINUE = MODULES / ".bin" / "cn"

leave_the_network()


def test_continue(start_server, tmp_path):
    server = serve(start_server, tmp_path, call("Write", filepath="hello.txt", content=MADE))
    model = {"name": "coder", "provider": "openai", "model": "coder", "apiBase": server.url + "/v1", "apiKey": "unused", "roles": ["chat"], "capabilities": ["tool_use"]}
    # YAML, of which JSON is a part.
    config = json.dumps({"name": "test", "version": "0.0.1", "schema": "v1", "models": [model]})
    command = [CONTINUE, "-p", PROMPT, "--auto", "--config", tmp_path / "home" / "config.yaml"]
    telemetry = {"CONTINUE_TELEMETRY_ENABLED": "0", "CONTINUE_CLI_DISABLE_COMMIT_SIGNATURE": "1"}
    assert run(tmp_path, command, {"config.yaml": config}, **telemetry) == MADE


@pytest.mark.parametrize("api", ["openai-compatible", "openai", "anthropic"])
def test_opencode(start_server, tmp_path, api):
    server = serve(start_server, tmp_path, call("write", filePath=str(tmp_path / "work" / "hello.txt"), content=MADE))
    provider = {
        "npm": f"@ai-sdk/{api}",
        "name": "Graphmill",
        "options": {"baseURL": server.url + "/v1", "apiKey": "unused"},
        "models": {"coder": {"name": "coder", "tool_call": True, "limit": {"context": 200_000, "output": 1_000}}},
    }
    config = {"provider": {"graphmill": provider}, "permission": "allow", "share": "disabled", "autoupdate": False}
    (program,) = MODULES.glob("opencode-linux-*/bin/opencode")
    command = [program, "run", "--model", "graphmill/coder", PROMPT]
    offline = {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1", "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1"}
    assert run(tmp_path, command, {".config/opencode/opencode.json": json.dumps(config)}, **offline) == MADE
