#!/usr/bin/env python3
"""Changes what a server serves while clients stream from it; no stream may notice.

Streams are held open all the while, and configuration, graph and model are changed under them, rightly and wrongly. Fails if a
stream differs from what an idle server answers, if the server is ever not ready, if a change has another outcome than it deserves,
if a model is loaded more often than its file was replaced, if memory grows with the reloads, or if SIGTERM cuts a stream without an
error event.
"""

import argparse
import asyncio
import collections
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from soak import MIB, ROOT, growth, printed_port, resident

CHAT = "chat"
QUESTIONS = ["Tell me about the sea.", "Tell me a story about a king.", "What is a side packet?", "Count to one hundred."]
PATIENCE = 120
# One thread, since the machine may be busy; each sequence has its own cells, so that answers do not depend on who else asks. Without
# huge pages: which cells happen to share one would decide the memory.
OPTIONS = "cache_size: 1 max_context: 512 max_num_seqs: 256 plugin_config: '{\"threads\": 1, \"kv_unified\": false, \"huge_pages\": false}'"
GRACE = 3
# Of reloads with nobody there, where the first makes memory grow.
ROUNDS = 2


class Site:
    """The folder that is served, and the ways to change it. Files are replaced by renaming."""

    def __init__(self, folder):
        self.folder = folder
        self.graph = (ROOT / "graphs/ovms_llm/graph.pbtxt").read_text()
        start = self.graph.index("models_path")
        end = self.graph.index("}", start)
        self.graph = f'{self.graph[:start]}models_path: "./" {OPTIONS} {self.graph[end:]}'
        (folder / CHAT).mkdir()
        self.replace_model(0)
        self.write_graph(self.graph)
        self.write_config([CHAT])
        self.loads = 1

    def put(self, name, text):
        new = self.folder / (name + ".new")
        new.write_text(text)
        new.rename(self.folder / name)

    def write_config(self, names):
        entries = [{"config": {"name": name, "base_path": CHAT}} for name in names]
        self.put("config.json", json.dumps({"model_config_list": entries}))

    def write_graph(self, text):
        self.put(f"{CHAT}/graph.pbtxt", text)

    def replace_model(self, _):
        new = self.folder / CHAT / "new"
        shutil.copy(ROOT / "demos/tiny_chat/model.gguf", new)
        new.rename(self.folder / CHAT / "model.gguf")

    # Right changes.

    def another_graph(self, count):
        self.write_config([CHAT, f"other-{count}"])

    def no_other_graph(self, _):
        self.write_config([CHAT])

    def another_text(self, count):
        self.write_graph(f"# Change {count}.\n{self.graph}")

    def another_model(self, count):
        self.replace_model(count)
        self.loads += 1

    # Wrong ones.

    def no_json(self, _):
        self.put("config.json", '{"model_config_list": [')

    def unknown_key(self, _):
        self.put("config.json", '{"model_config_list": [], "mediapipe_config_lists": []}')

    def no_graph(self, _):
        self.write_graph(self.graph.replace("HttpLLMCalculator", "HttpLLMCalculater"))

    def no_model(self, _):
        self.write_graph(self.graph.replace('"./"', '"./nowhere"'))

    RIGHT = [another_graph, another_model, no_other_graph, another_text]
    WRONG = [no_json, no_graph, unknown_key, no_model]


class Client:
    """HTTP without a library, since 200 streams are read beside the server."""

    def __init__(self, port):
        self.port = port

    async def ask(self, method, path, body=None):
        """The status, and the body without its frames. A stream that ends early has what came of it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        data = json.dumps(body).encode() if body is not None else b""
        head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
        writer.write(head.encode() + data)
        answer = await asyncio.wait_for(reader.read(), PATIENCE)
        writer.close()
        head, _, rest = answer.partition(b"\r\n\r\n")
        if b"transfer-encoding: chunked" in head.lower():
            rest = b"".join(self.unframed(rest))
        return int(head.split(b" ")[1]), rest.decode()

    @staticmethod
    def unframed(rest):
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            yield rest[: int(size, 16)]
            rest = rest[int(size, 16) + 2 :]

    async def stream(self, question, tokens):
        """The text of a stream and how it ended: `[DONE]`, the code of an error, or what came last."""
        messages = [{"role": "user", "content": question}]
        body = {"model": CHAT, "messages": messages, "stream": True, "temperature": 0, "ignore_eos": True, "max_tokens": tokens}
        status, answer = await self.ask("POST", "/v3/chat/completions", body)
        if status != 200:
            return "", f"{status}: {answer[:300]}"
        events = [event[len("data: ") :] for event in answer.split("\n\n") if event.startswith("data: ")]
        parts = [json.loads(event) for event in events if event != "[DONE]"]
        text = "".join(choice["delta"].get("content") or "" for part in parts for choice in part.get("choices", []))
        failure = next((part["error"]["code"] for part in parts if "error" in part), None)
        return text, failure or (events[-1] if events else "nothing came")


class Run:
    def __init__(self, arguments, process, port, site, log):
        self.arguments, self.process, self.site, self.log = arguments, process, site, log
        self.client = Client(port)
        self.wrong = []
        self.counts = collections.Counter()
        self.over = False

    async def streams(self, index):
        question = QUESTIONS[index % len(QUESTIONS)]
        while not self.over:
            text, end = await self.client.stream(question, self.arguments.tokens)
            self.counts["streams"] += 1
            expected = self.expected[question]
            if (text, end) != (expected, "[DONE]"):
                same = os.path.commonprefix([text, expected])
                self.wrong.append(f"a stream ends with {end}; of {len(expected)} letters {len(text)} came, the same up to {len(same)}")

    async def readiness(self):
        while not self.over:
            status, body = await self.client.ask("GET", "/v2/health/ready")
            self.counts["probes"] += 1
            if status != 200:
                self.wrong.append(f"not ready: {status} {body[:200]}")
            await asyncio.sleep(0.02)

    async def reload(self, change, count, statuses):
        change(self.site, count)
        status, body = await self.client.ask("POST", "/v1/config/reload")
        self.counts[change.__name__] += 1
        # The watcher may have been first.
        if status not in statuses:
            self.wrong.append(f"{change.__name__}: {status} {body[:300]}")

    async def reloads(self, number):
        """Every third change is wrong, and undone by writing both files anew."""
        for count in range(number):
            if count % 3 == 2:
                change = Site.WRONG[count // 3 % len(Site.WRONG)]
                await self.reload(change, count, (400, 412))
                self.site.write_graph(self.site.graph)
                await self.reload(Site.no_other_graph, count, (200, 201))
            else:
                await self.reload(Site.RIGHT[count % len(Site.RIGHT)], count, (200, 201))
            await asyncio.sleep(self.arguments.pause)

    async def engines(self):
        return json.loads((await self.client.ask("GET", "/v3/status"))[1])["engines"]

    async def all_run(self, clients):
        """Waits until all streams have a slot, or one has ended."""
        while (await self.engines())[0]["sequences_running"] < self.arguments.streams and not any(client.done() for client in clients):
            await asyncio.sleep(0.05)

    async def idle(self):
        """Waits until the last generation is the only one."""
        deadline = time.monotonic() + PATIENCE
        while True:
            engines = await self.engines()
            if len(engines) == 1 and not engines[0]["kv_cells_used"] and not engines[0]["sequences_running"]:
                return
            if time.monotonic() > deadline:
                self.wrong.append(f"left behind: {len(engines)} engines, {[engine['kv_cells_used'] for engine in engines]} cells")
                return
            await asyncio.sleep(0.05)

    def loads(self):
        return self.log.read_text(errors="replace").count("\nweights   ")

    async def under_load(self):
        self.expected = {question: (await self.client.stream(question, self.arguments.tokens))[0] for question in QUESTIONS}
        clients = [asyncio.create_task(self.streams(index)) for index in range(self.arguments.streams)]
        probe = asyncio.create_task(self.readiness())
        await self.all_run(clients)
        began = time.monotonic()
        await self.reloads(self.arguments.reloads)
        print(f"{self.arguments.reloads} changes under {self.arguments.streams} streams in {time.monotonic() - began:.0f} s")
        self.over = True
        await asyncio.gather(*clients, probe)
        await self.idle()

    async def memory(self):
        """Reloads with nobody there. A leak grows in every round; what grows in one round alone is the allocator's."""
        for _ in range(ROUNDS):
            grew = await self.growth_of_a_round()
            if grew <= self.arguments.growth_mib * MIB:
                return
        self.wrong.append(f"memory grew by {grew / MIB:.1f} MiB, more than {self.arguments.growth_mib} MiB, and so it did before")

    async def growth_of_a_round(self):
        """Memory is looked at when old generations are gone."""
        samples = []
        for count in range(self.arguments.more):
            await self.reload(Site.RIGHT[count % len(Site.RIGHT)], count, (200, 201))
            await self.client.stream(QUESTIONS[0], 4)
            await self.idle()
            samples.append((count, resident(self.process)))
        later = samples[len(samples) // 3 :]
        if len(later) <= 2:
            return 0
        grew = growth(later)
        print(f"memory: {samples[0][1] / MIB:.0f} MiB, {later[-1][1] / MIB:.0f} MiB after {len(samples)} more; {grew / MIB:+.1f} MiB in the last {len(later)}")
        return grew

    async def end(self):
        clients = [asyncio.create_task(self.client.stream(QUESTIONS[index % 4], self.arguments.tokens)) for index in range(self.arguments.streams)]
        await self.all_run(clients)
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        ends = collections.Counter(end for _, end in await asyncio.gather(*clients))
        status = await asyncio.to_thread(self.process.wait, PATIENCE)
        print(f"SIGTERM: status {status} after {time.monotonic() - began:.1f} s; streams end with {dict(ends)}")
        if status or set(ends) - {"[DONE]", "draining"}:
            self.wrong.append(f"SIGTERM: status {status}, streams end with {dict(ends)}")

    async def all(self):
        while True:
            try:
                if (await self.client.ask("GET", "/v2/health/ready"))[0] == 200:
                    break
            except OSError:
                pass
            if self.process.poll() is not None:
                return [f"the server does not start: {self.log.read_text()[-2000:]}"]
            await asyncio.sleep(0.1)
        await self.under_load()
        await self.memory()
        await self.end()
        if self.loads() != self.site.loads:
            self.wrong.append(f"models were loaded {self.loads()} times, and there were {self.site.loads} files")
        print(dict(self.counts), f"{self.loads()} loads of {self.site.loads} files")
        return self.wrong[:20] + [line for line in self.log.read_text(errors="replace").splitlines() if "panic" in line][:20]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=200, help="how many streams are open")
    parser.add_argument("--tokens", type=int, default=300, help="tokens of each")
    parser.add_argument("--reloads", type=int, default=50, help="changes while they are")
    parser.add_argument("--more", type=int, default=100, help="changes while memory is watched")
    parser.add_argument("--pause", type=float, default=0.5, help="seconds between changes")
    parser.add_argument("--growth_mib", type=float, default=16, help="most that memory may grow in the last two thirds of those")
    parser.add_argument("--server", type=pathlib.Path, default=ROOT / "target/release/graphmill", help="the program")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        site, log = Site(folder), folder / "log"
        command = [arguments.server, "serve", "--config_path", folder / "config.json", "--rest_port", "0", "--state_dir", folder / "state"]
        command += ["--shutdown_grace_seconds", str(GRACE), "--file_system_poll_wait_seconds", "1"]
        process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=log.open("wb"), text=True)
        try:
            port = printed_port(process)
            wrong = asyncio.run(Run(arguments, process, port, site, log).all())
        finally:
            process.kill()
            process.wait()
    for why in wrong:
        print(f"error: {why}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
