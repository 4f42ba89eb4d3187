"""A scripted model for coding agents, and what runs an agent by itself: it calls one tool, which makes a file, and ends when the result is there."""

import ctypes
import fcntl
import json
import os
import pathlib
import socket
import struct
import subprocess
import warnings

from conftest import ROOT

PROMPT = "Make the file hello.txt with the text hello."
MADE = "hello"

# Tells a model whether there are tools, and whether one has been called.
TEMPLATE = (
    "{% if not tools %}[[no tools]]{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.content is string %}{{ m.content }}{% elif m.content %}{% for part in m.content %}{{ part.text }}{% endfor %}{% endif %}"
    "{% if m.role == 'tool' %}[[result]]{% endif %}"
    "{% for call in m.tool_calls or [] %}<tool_call>\n{{ call.function | tojson }}\n</tool_call>{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def call(name, /, **arguments):
    """The text of a model that calls a tool."""
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def serve(start_server, folder, answer, name="coder"):
    """Starts a server whose model answers so where it has tools, and is done when it has a result."""
    replies = [{"when": "[[no tools]]", "text": "A file"}, {"when": "[[result]]", "text": "All done."}, {"text": answer}]
    return serve_replies(start_server, folder, replies, name)


def serve_replies(start_server, folder, replies, name="coder"):
    script = {"cells": 400_000, "context": 200_000, "chat_template": TEMPLATE, "replies": replies}
    (folder / "model.script.json").write_text(json.dumps(script))
    graph = (ROOT / "graphs" / "chat" / "graph.pbtxt").read_text()
    (folder / "chat").mkdir()
    (folder / "chat" / "graph.pbtxt").write_text(graph.replace("../../demos/tiny_chat", "../model.script.json"))
    config = folder / "config.json"
    config.write_text(json.dumps({"model_config_list": [], "mediapipe_config_list": [{"name": name, "base_path": "chat"}]}))
    server = start_server(config)
    server.wait_until(server.is_ready, "ready")
    return server


def run(folder, command, files=None, node=None, **environment):
    """Runs an agent in a folder of its own, with these files in its home, and returns the text of the file that it has made."""
    home, work = folder / "home", folder / "work"
    work.mkdir()
    for path, text in (files or {}).items():
        file = home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    home.mkdir(exist_ok=True)
    path = os.pathsep.join([*([str(node)] if node else []), os.environ["PATH"]])
    variables = {"HOME": str(home), "PATH": path, "TERM": "dumb", "CI": "1"} | environment
    # In a group of its own, as some leave children.
    agent = subprocess.run(command, cwd=work, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180, check=False, start_new_session=True)
    made = work / "hello.txt"
    assert made.exists(), f"exit status {agent.returncode}\n{agent.stdout[-4000:]}\n{agent.stderr[-4000:]}"
    return made.read_text().strip()


def leave_the_network():
    """Leaves this process, and what it starts, a loopback interface and no other."""
    new_user, new_network = 0x1000_0000, 0x4000_0000
    user, group = os.getuid(), os.getgid()
    if ctypes.CDLL(None).unshare(new_user | new_network) != 0:
        warnings.warn("namespaces are not allowed here: agents can reach the network", stacklevel=1)
        return
    for file, text in [("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")]:
        pathlib.Path("/proc/self", file).write_text(text)
    set_flags, up = 0x8914, 0x1
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sH22x", b"lo", up))
