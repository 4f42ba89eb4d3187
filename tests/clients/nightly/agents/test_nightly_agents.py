"""Coding agents: npm `@openai/codex` and `@qwen-code/qwen-code`, PyPI `aider-chat`."""

import json
import pathlib
import subprocess
import sys

import pytest

from coder import MADE, PROMPT, call, leave_the_network, run, serve, serve_replies

HERE = pathlib.Path(__file__).parent
PROGRAMS = HERE / "node_modules" / ".bin"
PATCH = f"*** Begin Patch\n*** Add File: hello.txt\n+{MADE}\n*** End Patch\n"
SHELL = f"printf {MADE} > hello.txt"

leave_the_network()


def codex(start_server, folder, answer, model="coder", more=""):
    """Runs Codex with a model of this name that answers so."""
    server = serve(start_server, folder, answer, model)
    config = f"""
        model = "{model}"
        model_provider = "graphmill"
        [model_providers.graphmill]
        name = "Graphmill"
        base_url = "{server.url}/v1"
        wire_api = "responses"
        request_max_retries = 0
        stream_max_retries = 0
        {more}
    """
    command = [PROGRAMS / "codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", PROMPT]
    return run(folder, command, {".codex/config.toml": config})


def test_codex(start_server, tmp_path):
    assert codex(start_server, tmp_path, call("exec_command", cmd=SHELL)) == MADE


def test_codex_with_an_mcp_server(start_server, tmp_path):
    server = f"""
        [mcp_servers.files]
        command = "{sys.executable}"
        args = ["{HERE / "mcp_server.py"}", "{tmp_path / "work"}"]
    """
    assert codex(start_server, tmp_path, call("mcp__files__write", name="hello.txt", text=MADE), more=server) == MADE


@pytest.mark.parametrize(
    ("model", "answer"),
    [
        # Sent as a tool of type `custom`.
        ("gpt-5.5", call("apply_patch", input=PATCH)),
        # Sent in an item `additional_tools` of the input, within the namespace `functions`.
        ("gpt-6-luna", call("functions__exec", input=f"await tools.exec_command({{ cmd: {json.dumps(SHELL)} }});")),
    ],
)
def test_codex_with_tools_of_its_own_models(start_server, tmp_path, model, answer):
    assert codex(start_server, tmp_path, answer, model) == MADE


def test_qwen_code(start_server, tmp_path):
    server = serve(start_server, tmp_path, call("write_file", file_path=str(tmp_path / "work" / "hello.txt"), content=MADE))
    (node,) = (HERE / "node_modules").glob("node-linux-*/bin")
    command = [PROGRAMS / "qwen", "--yolo", "--auth-type", "openai", "--prompt", PROMPT]
    assert run(tmp_path, command, node=node, OPENAI_BASE_URL=server.url + "/v1", OPENAI_API_KEY="unused", OPENAI_MODEL="coder") == MADE


def test_aider(start_server, tmp_path):
    """Writes files as its model's text says, without tools."""
    replies = [{"when": "commit message", "text": "Add a greeting"}, {"text": f"hello.txt\n```\n{MADE}\n```"}]
    server = serve_replies(start_server, tmp_path, replies)
    options = ["--yes-always", "--no-show-model-warnings", "--no-check-update", "--analytics-disable", "--no-gitignore", "--edit-format", "whole"]
    api = ["--model", "openai/coder", "--openai-api-base", server.url + "/v1", "--openai-api-key", "unused"]
    command = [pathlib.Path(sys.executable).with_name("aider"), *options, *api, "--message", PROMPT, "hello.txt"]
    names = {f"GIT_{who}_{what}": "tester@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    assert run(tmp_path, command, **names) == MADE
    log = subprocess.run(["git", "log", "--format=%s"], cwd=tmp_path / "work", capture_output=True, text=True, check=True)
    assert log.stdout.splitlines()[0] == "Add a greeting"
