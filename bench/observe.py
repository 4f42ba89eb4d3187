#!/usr/bin/env python3
"""What it costs to look: requests a second of a server, and its CPU time for each, while nobody looks, while a tap shows the
packets of a stream, all or some, and while fifty viewers follow a graph. They take turns, as the machine is not equally fast all the time."""

import argparse
import http.client
import json
import os
import pathlib
import selectors
import socket
import statistics
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
MODEL = "graphmill/tiny-chat"
GRAPH = MODEL.replace("/", "%2F")
TAP = f"/v3/graphs/{GRAPH}/tap?stream=llmexecutor__tokens"
EVENTS = f"/v3/graphs/{GRAPH}/events"
TICK = os.sysconf("SC_CLK_TCK")


class Viewers:
    """Connections that follow streams of events. One thread reads them all, and counts their events."""

    def __init__(self, port, paths):
        self.counts = {b"event: packet": 0, b"event: dropped": 0, b"event: delta": 0, b"event: snapshot": 0}
        self.going = True
        self.selector = selectors.DefaultSelector()
        for path in paths:
            viewer = socket.create_connection(("127.0.0.1", port))
            viewer.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            self.selector.register(viewer, selectors.EVENT_READ)
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        while self.going:
            for key, _ in self.selector.select(0.1):
                data = key.fileobj.recv(1 << 20)
                for name in self.counts:
                    self.counts[name] += data.count(name)

    def stop(self):
        self.going = False
        self.thread.join()
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()
        self.selector.close()
        return {name.decode().removeprefix("event: "): count for name, count in self.counts.items() if count}


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def is_ready(port):
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/v2/health/ready")
        return connection.getresponse().status == 200
    except OSError:
        return False


def load(port, streams, seconds):
    """Streams one answer after another on so many connections; how many were answered."""
    body = json.dumps({"model": MODEL, "stream": True, "max_tokens": 64, "ignore_eos": True, "messages": [{"role": "user", "content": "Go on."}]})
    until, counts = time.monotonic() + seconds, []

    def one():
        connection, answered = http.client.HTTPConnection("127.0.0.1", port), 0
        while time.monotonic() < until:
            connection.request("POST", "/v3/chat/completions", body, {"content-type": "application/json"})
            response = connection.getresponse()
            assert response.status == 200, response.status
            response.read()
            answered += 1
        counts.append(answered)

    threads = [threading.Thread(target=one) for _ in range(streams)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=2, help="of each part of a round")
    parser.add_argument("--streams", type=int, default=8, help="answers at once")
    parser.add_argument("--viewers", type=int, default=50)
    parser.add_argument("--server", type=pathlib.Path, default=ROOT / "target/release/graphmill")
    arguments = parser.parse_args()
    command = [arguments.server, "serve", "--config_path", "config.json", "--rest_port", "0", "--log_level", "ERROR"]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    port = int(server.stdout.readline().rpartition(":")[2])
    parts = {"nobody": [], "tap of all packets": [TAP], "tap of one in 14": [f"{TAP}&rate=0.07"], f"{arguments.viewers} viewers": [EVENTS] * arguments.viewers}
    rates, costs, events = {part: [] for part in parts}, {part: [] for part in parts}, {}
    try:
        while not is_ready(port):
            assert server.poll() is None, "the server ended"
            time.sleep(0.2)
        load(port, arguments.streams, 2)
        for _ in range(arguments.rounds):
            for part, paths in parts.items():
                viewers = Viewers(port, paths)
                before, began = cpu_seconds(server.pid), time.monotonic()
                answered = load(port, arguments.streams, arguments.seconds)
                seconds = time.monotonic() - began
                rates[part].append(answered / seconds)
                costs[part].append((cpu_seconds(server.pid) - before) / answered)
                events[part] = {name: round(count / seconds) for name, count in viewers.stop().items()}
    finally:
        server.terminate()
        server.wait()
    for part in list(parts)[1:]:
        for what, measured in [("requests a second", rates), ("CPU time of a request", costs)]:
            ratios = [one / other for one, other in zip(measured[part], measured["nobody"])]
            low, middle, high = statistics.quantiles(ratios, n=4)
            print(f"{part}: {what} {middle:.3f} of nobody's ({low:.3f}-{high:.3f})")
        print(f"{part}: events a second in all: {events[part]}")
    print(f"nobody: {statistics.median(rates['nobody']):.1f} requests a second")


main()
