#!/usr/bin/env python3
"""Opens streams of tensors over gRPC and drops them in the middle, again and again; then nothing may be left of them.

Of each round, half of the streams are cancelled and half lose their connection, while messages are on their way. Fails if a stream
is not answered before, if sessions or bodies are left, or if memory grows from round to round.

    .venv/apart/triton/bin/python bench/soak/streams.py
"""

import argparse
import asyncio
import ipaddress
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import grpc
from soak import MIB, PATIENCE, ROOT, get, growth, printed_port, resident
from tritonclient.grpc import service_pb2, service_pb2_grpc

# Fewer than a connection may have.
STREAMS_OF_A_CONNECTION = 200
GRAPH = """
input_stream: "x"
output_stream: "same"
node { calculator: "PassThroughCalculator" input_stream: "x" output_stream: "same" }
"""


async def stream(stub, size, answered, over):
    """A stream that is answered, and has a message on its way when it ends."""
    message = service_pb2.ModelInferRequest(model_name="same", raw_input_contents=[bytes(size)])
    message.inputs.add(name="x", datatype="UINT8", shape=[size])
    call = stub.ModelStreamInfer()
    await call.write(message)
    answer = await call.read()
    if len(answer.infer_response.raw_output_contents[0]) != size:
        raise RuntimeError(f"answered with {answer.error_message!r}")
    await call.write(message)
    answered.release()
    await over.wait()
    return call


async def round_of(arguments, address):
    """Opens all streams and drops them."""
    answered, over = asyncio.Semaphore(0), asyncio.Event()
    channels, tasks = [], []
    for first in range(0, arguments.streams, STREAMS_OF_A_CONNECTION):
        # Channels of the same address share a connection where they are not told apart.
        channel = grpc.aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1), ("channel", first)])
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        channels.append(channel)
        count = min(STREAMS_OF_A_CONNECTION, arguments.streams - first)
        tasks.append([asyncio.create_task(stream(stub, arguments.bytes, answered, over)) for _ in range(count)])
    for _ in range(arguments.streams):
        await asyncio.wait_for(answered.acquire(), PATIENCE)
    opened = status(arguments)["graphs"][0]["open_sessions"]
    over.set()
    for index, (channel, group) in enumerate(zip(channels, tasks)):
        calls = await asyncio.gather(*group)
        if index % 2:
            for call in calls:
                call.cancel()
        await channel.close()
    return opened


def status(arguments):
    return json.loads(get(arguments.rest, "/v3/status")[1])


def left(arguments):
    now = status(arguments)
    return {"sessions": now["graphs"][0]["open_sessions"], "bytes of bodies": now["bodies"]["bytes"]}


async def rounds(arguments, process):
    """What is wrong."""
    samples = []
    for number in range(arguments.rounds):
        opened = await round_of(arguments, arguments.grpc)
        if opened != arguments.streams:
            return [f"{opened} sessions were open at once, and not {arguments.streams}"]
        deadline = time.monotonic() + PATIENCE
        while any((rest := left(arguments)).values()):
            if time.monotonic() > deadline:
                return [f"left behind: {rest}"]
            await asyncio.sleep(0.05)
        samples.append((number, resident(process)))
    later = samples[len(samples) // 3 :]
    grew = growth(later)
    sizes = ", ".join(f"{size / MIB:.0f}" for _, size in samples)
    print(f"{arguments.rounds} times {arguments.streams} streams of {arguments.bytes} bytes: {sizes} MiB; {grew / MIB:+.1f} MiB in the last {len(later)}")
    if grew > arguments.growth_mib * MIB:
        return [f"memory grew by {grew / MIB:.1f} MiB, more than {arguments.growth_mib} MiB"]
    return []


def soak(arguments, folder):
    (folder / "graph.pbtxt").write_text(GRAPH)
    config = folder / "config.json"
    config.write_text(json.dumps({"model_config_list": [], "mediapipe_config_list": [{"name": "same", "base_path": "."}]}))
    # An address of this process's own, where nobody else takes a port.
    host, port = str(ipaddress.ip_address("127.0.0.0") + os.getpid()), "9000"
    arguments.grpc = f"{host}:{port}"
    command = [arguments.server, "serve", "--config_path", config, "--rest_port", "0", "--grpc_bind_address", host, "--port", port, "--log_level", "WARNING"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=(folder / "log").open("wb"), text=True)
    try:
        arguments.rest = printed_port(process)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                if get(arguments.rest, "/v2/health/ready")[0] == 200:
                    break
            except OSError:
                pass
            if time.monotonic() > deadline or process.poll() is not None:
                return [f"the server does not become ready: {(folder / 'log').read_text()[-2000:]}"]
            time.sleep(0.1)
        print(f"memory before: {resident(process) / MIB:.0f} MiB")
        wrong = asyncio.run(rounds(arguments, process))
        process.send_signal(signal.SIGTERM)
        if process.wait(PATIENCE) != 0:
            wrong.append(f"the server ended with {process.returncode}")
        return wrong + [line for line in (folder / "log").read_text(errors="replace").splitlines() if "panic" in line][:20]
    finally:
        process.kill()
        process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=1000, help="how many streams are open at once")
    parser.add_argument("--rounds", type=int, default=12, help="how often")
    parser.add_argument("--bytes", type=int, default=1 << 14, help="bytes of a tensor")
    parser.add_argument("--growth_mib", type=float, default=16, help="most that memory may grow in the last two thirds of the rounds")
    parser.add_argument("--server", type=pathlib.Path, default=ROOT / "target/release/graphmill", help="the program")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wrong = soak(arguments, pathlib.Path(folder))
    for why in wrong:
        print(f"error: {why}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
