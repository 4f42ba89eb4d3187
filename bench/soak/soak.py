#!/usr/bin/env python3
"""Loads a server with all that clients do, right and wrong, for some minutes; then nothing may be left of it.

Fails if the log tells of a panic, if an answer has a status that its request does not deserve, if sessions, sequences or KV cells
are left, if an engine failed, or if memory grew all the while.
"""

import argparse
import collections
import http.client
import json
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Small caches, so that they are full soon.
CONFIG = ROOT / "bench/soak/config.json"
CHAT = "graphmill/tiny-chat"
TOPICS = ["the sea", "a king", "numbers", "bread", "a long road", "winter", "two friends"]
PATIENCE = 60
MIB = 1 << 20


def chat(dice, **more):
    words = " ".join(dice.choice(TOPICS) for _ in range(dice.choice([1, 3, 40])))
    return {"model": CHAT, "messages": [{"role": "user", "content": f"Tell me about {words}."}], "max_tokens": dice.choice([1, 16, 64]), **more}


class Load:
    """What the clients do, and what they get."""

    def __init__(self, port):
        self.port = port
        self.until = 0.0
        self.counts = collections.Counter()
        self.wrong = []
        self.lock = threading.Lock()

    def send(self, path, body, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, data, {"content-type": "application/json", **(headers or {})})
        return connection

    def expect(self, what, connection, statuses):
        response = connection.getresponse()
        text = response.read()
        connection.close()
        # A full server may always say so.
        if response.status not in (*statuses, 429, 503):
            self.complain(f"{what}: {response.status}: {text[:300]!r}")
        return response.status, text

    def complain(self, why):
        with self.lock:
            self.wrong.append(why)

    def whole(self, dice):
        self.expect("a chat", self.send("/v3/chat/completions", chat(dice)), [200])

    def streamed(self, dice):
        status, text = self.expect("a stream", self.send("/v3/chat/completions", chat(dice, stream=True)), [200])
        if status == 200 and not text.endswith(b"data: [DONE]\n\n"):
            self.complain(f"a stream ends with {text[-200:]!r}")

    def left(self, dice):
        """A client that leaves: before the answer, or in the middle of it."""
        connection = self.send("/v3/chat/completions", chat(dice, stream=True, max_tokens=200))
        if dice.random() < 0.6:
            connection.getresponse().read1(dice.choice([1, 100, 1000]))
        connection.sock and connection.sock.close()
        connection.close()

    def half(self, dice):
        """A client that sends half of a request."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as client:
            client.sendall(b"POST /v3/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{" + b" " * dice.randrange(900))

    def many(self, dice):
        self.expect("several choices", self.send("/v3/completions", {"model": CHAT, "prompt": "Once", "n": 2, "logprobs": 2, "max_tokens": 8}), [200])

    def structured(self, dice):
        schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        self.expect("structured output", self.send("/v3/chat/completions", chat(dice, response_format=form)), [200])

    def embedded(self, dice):
        texts = [dice.choice(TOPICS) for _ in range(dice.randrange(1, 9))]
        self.expect("vectors", self.send("/v3/embeddings", {"model": "graphmill/tiny-embed", "input": texts}), [200])

    def damaged(self, dice):
        bodies = [b"", b"{", b"[]", b"null", b'{"model": 1}', b"\xff\xfe", b'{"a":' * 3000, json.dumps(chat(dice)).encode()[: dice.randrange(60)]]
        self.expect("a damaged body", self.send("/v3/chat/completions", dice.choice(bodies)), [400])

    def refused(self, dice):
        wrong = [{"temperature": "hot"}, {"max_tokens": -2}, {"n": 1000}, {"messages": []}, {"stop": [1]}, {"tools": {}}, {"response_format": {"type": "x"}}]
        self.expect("a wrong field", self.send("/v3/chat/completions", chat(dice, **dice.choice(wrong))), [400, 422])

    def nowhere(self, dice):
        self.expect("an unknown model", self.send("/v3/chat/completions", {"model": f"none-{dice.random()}", "messages": []}), [404])

    def late(self, dice):
        headers = {"x-request-timeout-ms": str(dice.choice([1, 20]))}
        self.expect("a deadline", self.send("/v3/chat/completions", chat(dice, max_tokens=200), headers), [200, 408, 504])

    def run(self, seed):
        dice = random.Random(seed)
        acts = [self.whole] * 4 + [self.streamed] * 4 + [self.left] * 4 + [self.embedded] * 2
        acts += [self.half, self.many, self.structured, self.damaged, self.refused, self.nowhere, self.late]
        while time.monotonic() < self.until:
            act = dice.choice(acts)
            try:
                act(dice)
            except (OSError, http.client.HTTPException) as error:
                self.complain(f"{act.__name__}: {error!r}")
            with self.lock:
                self.counts[act.__name__] += 1


def get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("GET", path)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, body


def resident(process):
    for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def growth(samples):
    """Bytes by which memory grew over the samples, of the line that fits them best."""
    times, sizes = zip(*samples)
    middle, mean = sum(times) / len(times), sum(sizes) / len(sizes)
    spread = sum((time - middle) ** 2 for time in times)
    slope = sum((time - middle) * (size - mean) for time, size in samples) / spread
    return slope * (times[-1] - times[0])


def left_behind(port):
    """What is not as in a server that has nothing to do; empty once it is."""
    status = json.loads(get(port, "/v3/status")[1])
    left = {graph["name"]: graph["open_sessions"] for graph in status["graphs"] if graph.get("open_sessions")}
    for engine in status["engines"]:
        for key in ("sequences_running", "sequences_waiting", "kv_cells_used"):
            if engine.get(key):
                left[key] = engine[key]
    return left


def failures(port):
    """Counters that have to be 0."""
    zero = ("failed_steps_total", "engine_restarts_total", "engine_stopped")
    lines = [line for line in get(port, "/metrics")[1].splitlines() if not line.startswith("#")]
    found = [line for line in lines if line.split("{")[0].endswith(zero) and float(line.rsplit(" ", 1)[1]) != 0]
    return found + [line for line in lines if line.startswith("graphmill_requests_total") and 'code="500"' in line]


def printed_port(process):
    """The port of a server that was started with port 0, which the system chose."""
    return int(process.stdout.readline().rsplit(":", 1)[1])


def soak(arguments, log):
    command = [arguments.server, "serve", "--config_path", CONFIG, "--rest_port", "0", "--log_level", "WARNING"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log.open("wb"), text=True, cwd=ROOT)
    wrong = []
    try:
        port = printed_port(process)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                if get(port, "/v2/health/ready")[0] == 200:
                    break
            except OSError:
                pass
            if time.monotonic() > deadline or process.poll() is not None:
                return [f"the server does not become ready: {log.read_text()[-2000:]}"]
            time.sleep(0.1)
        load = Load(port)
        began = time.monotonic()
        load.until = began + arguments.minutes * 60
        clients = [threading.Thread(target=load.run, args=(arguments.seed + index,)) for index in range(arguments.clients)]
        for client in clients:
            client.start()
        samples = []
        while time.monotonic() < load.until:
            time.sleep(1)
            if process.poll() is not None:
                return [f"the server ended with {process.returncode}: {log.read_text()[-2000:]}"]
            samples.append((time.monotonic() - began, resident(process)))
        for client in clients:
            client.join()
        deadline = time.monotonic() + PATIENCE
        while left := left_behind(port):
            if time.monotonic() > deadline:
                wrong.append(f"left behind: {left}")
                break
            time.sleep(0.1)
        wrong += load.wrong[:20] + failures(port)
        # Caches fill in the first half.
        later = samples[len(samples) // 2 :]
        grew, most = growth(later), max(arguments.growth_mib * MIB, 0.02 * later[0][1])
        print(f"{sum(load.counts.values())} requests: {dict(load.counts)}")
        print(f"memory: {samples[0][1] / MIB:.0f} MiB, {later[0][1] / MIB:.0f} MiB, {later[-1][1] / MIB:.0f} MiB; {grew / MIB:+.1f} MiB in the second half")
        if grew > most:
            wrong.append(f"memory grew by {grew / MIB:.1f} MiB in the second half, more than {most / MIB:.1f} MiB")
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            if process.wait(PATIENCE) != 0:
                wrong.append(f"the server ended with {process.returncode}")
        except subprocess.TimeoutExpired:
            process.kill()
            wrong.append("the server does not end")
    wrong += [line for line in log.read_text(errors="replace").splitlines() if "panic" in line][:20]
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2, help="how long the load takes")
    parser.add_argument("--clients", type=int, default=24, help="how many clients at a time")
    parser.add_argument("--seed", type=int, default=1, help="what the clients do depends on it")
    parser.add_argument("--growth_mib", type=float, default=16, help="most that memory may grow in the second half, if more than 2 percent")
    parser.add_argument("--server", type=pathlib.Path, default=ROOT / "target/release/graphmill", help="the program to load")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wrong = soak(arguments, pathlib.Path(folder) / "log")
    for why in wrong:
        print(f"error: {why}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
