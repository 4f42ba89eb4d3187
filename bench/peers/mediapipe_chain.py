#!/usr/bin/env python3
"""Measures a hop of MediaPipe's own engine and, beside it, one of ours.

    python3 -m venv .venv && .venv/bin/pip install mediapipe==0.10.14
    .venv/bin/python bench/peers/mediapipe_chain.py

A packet's way in and out of the graph passes through Python. So chains of two lengths are timed in turn, and the hop is
the difference of the two divided by the nodes that the longer one has more. Of many samples the fastest counts.
"""

import re
import subprocess
import sys
import time

import mediapipe

SHORT, LONG = 10, 110
PACKETS = 64
SAMPLES = 60
OURS = "chain of 100, packets in batches, a hop"


def graph(length, threads):
    nodes = "".join(
        f'node {{ calculator: "PassThroughCalculator" input_stream: "s{i}" output_stream: "s{i + 1}" }}\n'
        for i in range(length)
    )
    text = f'num_threads: {threads} input_stream: "s0" output_stream: "s{length}"\n{nodes}'
    made = mediapipe.CalculatorGraph(graph_config=text)
    made.observe_output_stream(f"s{length}", lambda name, packet: None)
    made.start_run()
    return made


def seconds(made, start):
    create = mediapipe.packet_creator.create_int
    packets = [create(0).at(start + i) for i in range(PACKETS)]
    begun = time.perf_counter()
    for packet in packets:
        made.add_packet_to_input_stream("s0", packet)
    made.wait_until_idle()
    return time.perf_counter() - begun


def hop_ns(threads):
    short, long = graph(SHORT, threads), graph(LONG, threads)
    fastest = {short: float("inf"), long: float("inf")}
    for sample in range(SAMPLES):
        for made in fastest:
            fastest[made] = min(fastest[made], seconds(made, sample * PACKETS))
    for made in fastest:
        made.close_all_packet_sources()
        made.wait_until_done()
    return (fastest[long] - fastest[short]) / (PACKETS * (LONG - SHORT)) * 1e9


def our_hop_ns():
    command = ["cargo", "bench", "--workspace", "--bench", "engine", "--", "hops"]
    table = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    row = re.search(rf"^\| {re.escape(OURS)} \| ([0-9.]+) ", table, re.MULTILINE)
    if not row:
        sys.exit(f"the table has no row `{OURS}`:\n{table}")
    return float(row[1])


def main():
    ours = our_hop_ns()
    print(f"graphmill, one thread: {ours:.0f} ns a hop")
    for threads in (1, 2):
        theirs = hop_ns(threads)
        print(f"mediapipe, {threads} thread(s): {theirs:.0f} ns a hop, {theirs / ours:.1f} times ours")


if __name__ == "__main__":
    main()
