#!/usr/bin/env python3
"""What a flood of requests with one key does to the time to first token of another: a server with two keys, whose first sends
a thousand streams at once, again and again."""

import argparse
import asyncio
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
MODEL = "graphmill/tiny-chat"


async def ask(port, key, max_tokens):
    """Streams one answer. Its status, the seconds to its first token, and whether it came to its end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps({"model": MODEL, "stream": True, "max_tokens": max_tokens, "messages": [{"role": "user", "content": "Tell me about the sea."}]})
    began = time.perf_counter()
    writer.write(f"POST /v3/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())
    status, first = int((await reader.readline()).split()[1]), None
    async for line in reader:
        if first is None and b'"content":"' in line:
            first = time.perf_counter() - began
    writer.close()
    return status, first


async def probe(port, seconds):
    """Milliseconds to the first token of requests of the second key, ten a second."""
    times, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        status, first = await ask(port, "quiet", 16)
        assert status == 200 and first is not None, status
        times.append(1000 * first)
        await asyncio.sleep(0.1)
    return times


async def flood(port, requests, statuses):
    """Keeps so many requests of the first key open."""

    async def one():
        while True:
            status, _ = await ask(port, "loud", 64)
            statuses[status] = statuses.get(status, 0) + 1
            if status != 200:
                await asyncio.sleep(1)

    await asyncio.gather(*(one() for _ in range(requests)))


def shown(times):
    low, middle, high = statistics.quantiles(times, n=4)
    p95 = statistics.quantiles(times, n=20)[-1]
    return f"median {middle:.1f} ms (quartiles {low:.1f}-{high:.1f}, p95 {p95:.1f}), {len(times)} requests"


async def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1000, help="requests of the flood that are open at a time")
    parser.add_argument("--seconds", type=float, default=20, help="how long each of the two parts takes")
    parser.add_argument("--server", type=pathlib.Path, default=ROOT / "target/release/graphmill", help="the program")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        keys = pathlib.Path(folder) / "keys.json"
        keys.write_text(json.dumps({"keys": [{"name": name, "key": name} for name in ["loud", "quiet"]]}))
        command = [arguments.server, "serve", "--config_path", ROOT / "bench/soak/config.json", "--rest_port", "0", "--api_key_file", keys, "--log_level", "ERROR"]
        server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        port = int(server.stdout.readline().rpartition(":")[2])
        try:
            while True:
                try:
                    await ask(port, "quiet", 1)
                    break
                except OSError:
                    assert server.poll() is None, "the server ended"
                    await asyncio.sleep(0.1)
            await probe(port, 2)
            print("idle: ", shown(await probe(port, arguments.seconds)))
            statuses = {}
            flooding = asyncio.create_task(flood(port, arguments.requests, statuses))
            await asyncio.sleep(3)
            print("flood:", shown(await probe(port, arguments.seconds)))
            print("answers to the flood:", dict(sorted(statuses.items())))
            flooding.cancel()
        finally:
            server.terminate()
            server.wait()


asyncio.run(main())
