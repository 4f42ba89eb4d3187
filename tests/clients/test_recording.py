"""Sessions that are recorded, played again and compared, by the command line against the shipped server."""

import json
import select
import subprocess
import time
import urllib.request

import pytest

from conftest import BINARY, ROOT

GRAPH = ROOT / "graphs" / "chat"


def run(*arguments, status=0):
    """Runs a command to its end: what it prints, and what it says beside."""
    done = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.returncode == status, done.stderr
    return done.stdout, done.stderr


def ask(server, text, **more):
    body = {"model": "chat", "messages": [{"role": "user", "content": text}], "max_tokens": 24, **more}
    request = urllib.request.Request(server.url + "/v3/chat/completions", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=60) as response:
        return response.read().decode()


def record(server, folder, *requests):
    """The files of sessions that are recorded by `graphmill record`."""
    command = [BINARY, "record", server.url, "chat", "--output", folder, "--sessions", str(len(requests))]
    recorder = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert "recording the next sessions" in recorder.stderr.readline()
    files = []
    for request in requests:
        request()
        files.append(recorder.stderr.readline().removeprefix("note: wrote ").strip())
    assert recorder.wait(timeout=60) == 0
    return files


@pytest.fixture(scope="module")
def recorded(server, tmp_path_factory):
    """A recording of an answer, one of a stream whose tokens were drawn at random, and one with log probabilities."""
    folder = tmp_path_factory.mktemp("recordings")
    return record(
        server,
        folder,
        lambda: ask(server, "Say this is a test"),
        lambda: ask(server, "Write a short story.", stream=True, temperature=1.2, n=2),
        lambda: ask(server, "What is a side packet?", logprobs=True, top_logprobs=3),
    )


def test_a_replay_gives_the_packets_that_were_recorded(recorded, tmp_path):
    for number, file in enumerate(recorded):
        again = tmp_path / f"{number}.jsonl"
        _, said = run("replay", file, "--base_path", GRAPH, "--output", again)
        assert "the same as recorded" in said
        assert run("diff", file, again) == ("", "")


def test_a_changed_graph_shows_what_it_changes(recorded, tmp_path):
    text = (GRAPH / "graph.pbtxt").read_text().replace("../../demos", str(ROOT / "demos"))
    reasoning = text[text.index("# Takes out what the model thinks") : text.index("# Takes out the calls of")]
    edited = tmp_path / "edited.pbtxt"
    edited.write_text(text.replace(reasoning, "").replace("TEXT:reasoned_text", "TEXT:stopped_text"))
    shown, _ = run("replay", recorded[0], "--base_path", GRAPH, "--graph", edited, status=1)
    first, *packets = shown.splitlines()
    assert first.startswith("stream `reasoned_text`: ") and first.endswith(" and 0 packets")
    assert packets and all(line.startswith('  - {"timestamp":') for line in packets)


def test_a_renamed_model_has_no_tokens(recorded, tmp_path):
    text = (GRAPH / "graph.pbtxt").read_text().replace("../../demos", str(ROOT / "demos"))
    edited = tmp_path / "edited.pbtxt"
    edited.write_text(text.replace('name: "llm"', 'name: "other"'))
    _, said = run("replay", recorded[0], "--base_path", GRAPH, "--graph", edited, status=1)
    assert "no tokens of the node `other` were recorded" in said


def test_a_recording_becomes_a_test(recorded, tmp_path):
    text = (GRAPH / "graph.pbtxt").read_text().replace("../../demos", str(ROOT / "demos"))
    graph = tmp_path / "graph.pbtxt"
    graph.write_text(text)
    for number, file in enumerate(recorded):
        test = tmp_path / f"{number}.test.toml"
        run("replay", file, "--base_path", GRAPH, "--graph", graph, "--save_test", test)
        shown, _ = run("test", test)
        assert "1 passed, 0 failed" in shown
    assert 'graph = "graph.pbtxt"' in test.read_text()
    test.write_text(test.read_text().replace("case.tokens.llm", "case.tokens.other"))
    shown, _ = run("test", test, status=1)
    assert "no tokens of the node `llm` were recorded" in shown


def test_a_test_of_a_recorded_graph_finds_its_files_from_any_folder(recorded, tmp_path):
    test = tmp_path / "deep" / "recorded.test.toml"
    test.parent.mkdir()
    for base in (GRAPH, GRAPH.relative_to(ROOT)):
        run("replay", recorded[0], "--base_path", base, "--save_test", test)
        shown, _ = run("test", test)
        assert "1 passed, 0 failed" in shown
    graph = f'graph = "{GRAPH}/graph.pbtxt"\nbase_path = "."\n'
    test.write_text(graph + "[[case]]" + test.read_text().partition("[[case]]")[2])
    assert "`base_path` is for a graph in `text`" in "".join(run("test", test, status=1))


def test_a_tap_prints_packets_until_its_reader_has_enough(server):
    tap = subprocess.Popen([BINARY, "tap", server.url, "chat", "tokens"], stdout=subprocess.PIPE, text=True)
    # A tap sees what comes after it has begun, which nothing tells from outside.
    packets = []
    deadline = time.monotonic() + 60
    while not packets and time.monotonic() < deadline:
        ask(server, "Say this is a test")
        if select.select([tap.stdout], [], [], 0.5)[0]:
            packets.append(json.loads(tap.stdout.readline()))
    tap.terminate()
    assert packets[0]["stream"] == "tokens" and packets[0]["payload"]["tokens"]


def test_why_lists_open_sessions(server):
    assert run("why", server.url) == ("no session is open\n", "")
    assert "no session `nobody` is open" in run("why", server.url, "nobody", status=1)[1]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("", ":1: not a recording"),
        ("{}\n", ":1: not a recording: missing field `graphmill_recording`"),
        ('{"graphmill_recording": 2, "graph": "g", "id": "i", "text": "x"}\n', "the recording has version 2"),
        ('{"graphmill_recording": 1, "graph": "g", "id": "i", "text": "x"}\n{"stream": 1}\n', ":2: invalid type"),
        ('{"graphmill_recording": 1, "graph": "g", "id": "i", "text": "x", "dropped": 3}\n', "3 packets did not fit"),
        ('{"graphmill_recording": 1, "graph": "g", "id": "i", "text": ""}\n', "the recording has no graph"),
        ('{"graphmill_recording": 1, "graph": "g", "id": "i", "text": "node {"}\n', "recorded.pbtxt:1:"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(tmp_path, lines, problem):
    file = tmp_path / "wrong.jsonl"
    file.write_text(lines)
    assert problem in run("replay", file, status=1)[1]
