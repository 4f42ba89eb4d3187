#!/usr/bin/env python3
"""Compares what a tiny model of each architecture says alone, again, in a crowd, after a cancellation, with shared beginnings, and with drafts, by prompt lookup, MTP layers or EAGLE3 models.

    check.py [--folder FOLDER] [ARCHITECTURE ...]

Prints a line for each architecture and fails if an answer differs from that of a request alone on an engine that shares nothing, or
if a server ends. Models are made once into the folder.
"""

import argparse
import concurrent.futures
import http.client
import json
import pathlib
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

from make import BINARY, ROOT, NotMade, load, make, read_vocabulary
from shapes import ARCHITECTURES

TOKENS = 64
# How much log probabilities may differ: batches decide in which order floats are added.
TOLERANCE = 0.1
PATIENCE = 120


def prompt(end, beginning=90):
    """A beginning that all have, with an end of its own for each number."""
    shared = [20 + index * 7 % 150 for index in range(beginning)]
    return [*shared, 200 + end, *(20 + (index * 3 + end * 13) % 150 for index in range(20))]


class Server:
    """A server of a model's graphs: `plain`, which shares nothing, `sharing`, and `drafting` where the model can take tokens back."""

    def __init__(self, folder):
        refused = load(folder / "drafting.pbtxt")
        if refused and "recurrent" not in refused:
            raise NotMade(f"does not draft: {refused[-600:]}")
        self.graphs = ["plain", "sharing"] if refused else ["plain", "sharing", "drafting"]
        graphs = [{"name": name, "base_path": ".", "graph_path": f"{name}.pbtxt"} for name in self.graphs]
        config = folder / "config.json"
        config.write_text(json.dumps({"model_config_list": [], "mediapipe_config_list": graphs}))
        self.log = folder / "log.txt"
        command = [BINARY, "serve", "--config_path", config, "--rest_port", "0", "--rest_bind_address", "127.0.0.1"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log.open("wb"), text=True)
        self.port = self.process.stdout.readline().rpartition(":")[2].strip()
        deadline = time.monotonic() + PATIENCE
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline or "END" in self.states():
                self.stop()
                raise NotMade(f"is not served: {self.log.read_text()[-1200:]}")
            time.sleep(0.02)

    def states(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v3/status", timeout=5) as response:
                return {graph["state"] for graph in json.load(response)["graphs"]}
        except (OSError, KeyError, TypeError):
            return set()

    def is_ready(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v2/health/ready", timeout=5) as response:
                return response.status == 200
        except OSError:
            return False

    def send(self, graph, tokens, **more):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        body = {"model": graph, "prompt": tokens, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True, "logprobs": 5, **more}
        connection.request("POST", "/v3/completions", json.dumps(body), {"content-type": "application/json"})
        return connection.getresponse()

    def ask(self, graph, tokens):
        """The log probabilities of an answer, how many tokens of the prompt were shared, and how many were drafted."""
        response = self.send(graph, tokens)
        text = response.read()
        if response.status != 200:
            raise ValueError(f"status {response.status}: {text[:300]!r}")
        answer = json.loads(text)
        prompt, completion = (answer["usage"].get(f"{part}_tokens_details") or {} for part in ("prompt", "completion"))
        drafted = completion.get("accepted_prediction_tokens", 0) + completion.get("rejected_prediction_tokens", 0)
        return answer["choices"][0]["logprobs"], prompt.get("cached_tokens", 0), drafted

    def cancel(self, graph, tokens):
        """Leaves after the first event of a long answer."""
        response = self.send(graph, tokens, stream=True, max_tokens=300)
        response.read1(1)
        response.close()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return "no end within 20 s"


def difference(expected, got):
    """How an answer differs from the expected one; nothing if only ties were broken another way."""
    wanted, found = expected["tokens"], got["tokens"]
    if len(wanted) != len(found):
        return f"{len(found)} tokens instead of {len(wanted)}"
    for place, (want, find) in enumerate(zip(wanted, found)):
        if want != find:
            likely = expected["top_logprobs"][place]
            gap = expected["token_logprobs"][place] - likely.get(find, -99.0)
            # What follows a tie is another text.
            return None if gap < TOLERANCE else f"token {place} is {find!r} instead of {want!r}, {gap:.2f} less likely"
        apart = abs(expected["token_logprobs"][place] - got["token_logprobs"][place])
        if not apart < TOLERANCE:
            return f"the log probability of token {place} differs by {apart:.2f}"
    return None


def check(server):
    """What is wrong with the answers of a server, and what it shared and drafted."""
    wrong = []
    prompts = [prompt(end) for end in range(6)]

    def expect(what, expected, got):
        if why := difference(expected, got):
            wrong.append(f"{what}: {why}")

    alone = [server.ask("plain", tokens)[0] for tokens in prompts]
    if len({text for answer in alone for text in answer["tokens"]}) < 4:
        wrong.append("says nearly nothing, so that nothing can be compared")
    for end in (0, 5):
        if server.ask("plain", prompts[end])[0] != alone[end]:
            wrong.append("again: not the same to the last bit")
    with concurrent.futures.ThreadPoolExecutor(6) as clients:
        for graph in server.graphs:
            crowd = clients.map(lambda tokens: server.ask(graph, tokens)[0], prompts)
            for expected, got in zip(alone, crowd):
                expect(f"{graph}, in a crowd", expected, got)
    for graph in server.graphs:
        for end in (1, 2):
            server.cancel(graph, prompts[end])
        for end in (1, 3):
            expect(f"{graph}, after cancellations", alone[end], server.ask(graph, prompts[end])[0])
    shared, drafted = 0, 0
    for graph in server.graphs[1:]:
        for end in (0, 1, 2, 2):
            got, cached, guessed = server.ask(graph, prompts[end])
            expect(graph, alone[end], got)
            shared, drafted = max(shared, cached), drafted + guessed
    if "drafting" in server.graphs:
        # What follows the repeated end is drafted, and mostly wrong.
        for tokens in (prompts[end] + prompts[end][:60 + end] for end in range(3)):
            expected = server.ask("plain", tokens)[0]
            got, _, guessed = server.ask("drafting", tokens)
            expect("drafting, a repetition", expected, got)
            drafted += guessed
        if not drafted:
            wrong.append("drafts nothing")
    # Parts in the middle of what is known, and goes on.
    for tokens in (prompts[0][:70] + prompts[3][40:60], prompts[1] + prompts[2][80:]):
        expected = server.ask("plain", tokens)[0]
        for what in ("sharing, another end", "sharing, another end again"):
            expect(what, expected, server.ask("sharing", tokens)[0])
    if not shared:
        wrong.append("shares nothing")
    errors = [line for line in server.log.read_text().splitlines() if " ERROR " in line]
    wrong += [f"logged: {line}" for line in errors[:1]]
    return wrong, f"{shared} tokens shared, " + (f"{drafted} drafted" if "drafting" in server.graphs else "drafts refused")


def try_one(architecture, folder, vocabulary):
    """What to print of an architecture, and whether it is right."""
    try:
        make(architecture, folder, vocabulary)
        server = Server(folder)
    except (NotMade, subprocess.TimeoutExpired) as error:
        return f"not made: {error}", False
    try:
        wrong, did = check(server)
    except (OSError, ValueError, http.client.HTTPException) as error:
        wrong, did = [f"{type(error).__name__}: {error}"], ""
    ended = server.stop()
    if ended != 0:
        wrong.append(f"the server ended with {ended}: {server.log.read_text()[-600:]}")
    return "; ".join(wrong) or f"right, {did}", not wrong


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--folder", type=pathlib.Path, default=ROOT / "target" / "architectures")
    arguments.add_argument("architectures", nargs="*", metavar="ARCHITECTURE")
    given = arguments.parse_args()
    vocabulary = read_vocabulary()
    failed = 0
    for architecture in given.architectures or ARCHITECTURES:
        says, is_right = try_one(architecture, given.folder / architecture, vocabulary)
        print(f"{architecture}: {says}", flush=True)
        failed += not is_right
    sys.exit(f"{failed} architectures are not right" if failed else 0)


if __name__ == "__main__":
    main()
