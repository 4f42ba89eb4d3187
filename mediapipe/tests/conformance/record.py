#!/usr/bin/env python3
"""Runs graph cases on MediaPipe's wheel and writes down what happened.

usage: record.py [-n RUNS] [-t SECONDS] [-o FOLDER] CASE.json ...

The form of a case is in README.md. Needs `pip install mediapipe==0.10.14`. Each case runs in worker processes, so that one
that crashes or hangs takes nothing along, and so that what depends on a process's hash seeds shows.
"""
import argparse
import glob
import importlib.util
import json
import os
import select
import subprocess
import sys

ENGINE = "mediapipe 0.10.14"
SPECIAL = ["UNSET", "UNSTARTED", "PRESTREAM", "MIN", "MAX", "POSTSTREAM", "DONE"]
GETTERS = {
    "int": "get_int",
    "uint": "get_uint",
    "bool": "get_bool",
    "float": "get_float",
    "string": "get_str",
    "int_vector": "get_int_list",
    "float_vector": "get_float_list",
    "bool_vector": "get_bool_list",
    "string_vector": "get_str_list",
}
PROCESSES = 4


def bindings():
    """The wheel's extension module, without the packages around it, which take seconds to import."""
    for folder in sys.path:
        for path in glob.glob(os.path.join(folder, "mediapipe/python/_framework_bindings*.so")):
            spec = importlib.util.spec_from_file_location("_framework_bindings", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    raise SystemExit("mediapipe is not installed")


def attempt(do):
    try:
        return do() or "OK"
    except Exception as error:
        return {"error": type(error).__name__}


class Recorder:
    def __init__(self):
        module = bindings()
        self.graph = module.calculator_graph.CalculatorGraph
        self.timestamp = module.timestamp.Timestamp
        self.create = module._packet_creator
        self.get = module._packet_getter

    def time(self, value):
        return getattr(self.timestamp, value) if isinstance(value, str) else self.timestamp(value)

    def packet(self, kind, value):
        return getattr(self.create, "create_" + kind)(value)

    def shown(self, packet):
        time = packet.timestamp
        named = [name for name in SPECIAL if time == getattr(self.timestamp, name)]
        entry = {"ts": named[0] if named else time.value}
        if packet.is_empty():
            return {"empty": True, **entry}
        for kind, getter in GETTERS.items():
            try:
                return {**entry, "type": kind, "value": getattr(self.get, getter)(packet)}
            except Exception:
                continue
        return {**entry, "type": "other", "value": None}

    def run(self, case):
        seen = {"engine": ENGINE}
        graphs = []
        seen["create"] = attempt(lambda: graphs.append(self.graph(graph_config=case["pbtxt"])))
        if seen["create"] != "OK":
            return seen
        graph = graphs[0]
        by_step = case.get("wait_until_idle_after_each_action", True)
        outputs, by_action, at = {}, {}, [-1]

        def observer(stream, packet):
            entry = self.shown(packet)
            outputs.setdefault(stream, []).append(entry)
            by_action.setdefault(str(at[0]), {}).setdefault(stream, []).append(entry)

        def observe():
            for stream in case.get("observe", []):
                bounds = case.get("observe_timestamp_bounds", False)
                graph.observe_output_stream(stream, observer, bounds)

        observed = attempt(observe)
        if observed != "OK":
            seen["observe_error"] = observed
            return seen
        sides = case.get("side_packets", {}).items()
        sides = {name: self.packet(side["type"], side["value"]) for name, side in sides}
        seen["start_run"] = attempt(lambda: graph.start_run(sides))
        if seen["start_run"] == "OK":
            self.act(graph, case, by_step, at, seen)
        seen["outputs"] = outputs
        if by_step:
            seen["outputs_by_action"] = by_action
        return seen

    def act(self, graph, case, by_step, at, seen):
        results, done = [], False
        if by_step:
            attempt(graph.wait_until_idle)
        for at[0], action in enumerate(case["actions"]):
            result = {"result": attempt(lambda: self.do(graph, action))}
            done = done or action["op"] == "done"
            idle = attempt(graph.wait_until_idle) if by_step and not done else "OK"
            if idle != "OK":
                result["idle"] = idle
            results.append(result)
        at[0] = len(case["actions"]) + 1
        if not done:
            results.append({"result": attempt(graph.close_all_packet_sources)})
            seen["final"] = attempt(graph.wait_until_done)
        elif case["actions"][-1]["op"] == "done":
            seen["final"] = results[-1]["result"]
        seen["action_results"] = results

    def do(self, graph, action):
        match action["op"]:
            case "add":
                packet = self.packet(action["type"], action["value"])
                time = self.time(action["timestamp"])
                graph.add_packet_to_input_stream(action["stream"], packet, time)
            case "close":
                graph.close_input_stream(action["name"])
            case "close_all":
                graph.close_all_packet_sources()
            case "idle":
                graph.wait_until_idle()
            case "done":
                graph.wait_until_done()
            case "out_side":
                shown = self.shown(graph.get_output_side_packet(action["name"]))
                del shown["ts"]
                return shown
            case op:
                raise SystemExit(f"unknown action {op}")


def work():
    """Reads runs and cases, writes what was seen and how often, most frequent first."""
    recorder = Recorder()
    for line in sys.stdin:
        runs, case = json.loads(line)
        print(json.dumps([recorder.run(case) for _ in range(runs)]), flush=True)


class Worker:
    process = None

    def ask(self, runs, case, seconds):
        """What was seen, or how the worker died."""
        if self.process is None:
            command = [sys.executable, os.path.abspath(__file__), "--worker"]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            self.process = subprocess.Popen(command, text=True, **pipes)
        self.process.stdin.write(json.dumps([runs, case]) + "\n")
        self.process.stdin.flush()
        in_time, _, _ = select.select([self.process.stdout], [], [], seconds)
        line = self.process.stdout.readline() if in_time else ""
        if line:
            return json.loads(line)
        self.process.kill()
        code, self.process = self.process.wait(), None
        return f"rc {code}" if in_time else "hang"


def record(workers, case, runs, seconds):
    """The case with what was observed, the most frequent result first."""
    results = []
    for worker in workers:
        seen = worker.ask(-(-runs // len(workers)), case, seconds)
        if isinstance(seen, str):
            return {**case, "observed": {"engine": ENGINE, "crash_or_hang": seen}}
        results += seen
    different = []
    for result in results:
        if result not in different:
            different.append(result)
    different.sort(key=results.count, reverse=True)
    case = {**case, "observed": {**different[0], "deterministic": len(different) == 1}}
    return {**case, "also_observed": different[1:]} if len(different) > 1 else case


def written(case):
    """A line for each action and each part of the observation."""

    def block(value, brackets, lines):
        return brackets[0] + "\n  " + ",\n  ".join(lines) + "\n " + brackets[1] if value else brackets

    def field(value):
        if isinstance(value, list):
            return block(value, "[]", [compact(item) for item in value])
        return block(value, "{}", [f"{compact(name)}: {compact(item)}" for name, item in value.items()])

    def compact(value):
        return json.dumps(value, ensure_ascii=False)

    long = {"actions", "observed", "also_observed", "here"}
    fields = [f" {compact(name)}: {field(value) if name in long else compact(value)}" for name, value in case.items()]
    return "{\n" + ",\n".join(fields) + "\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE.json")
    parser.add_argument("-n", type=int, default=32, help="runs of each case (32)")
    parser.add_argument("-t", type=float, default=20, help="seconds that a process may take for its runs (20)")
    parser.add_argument("-o", help="write there, not into the cases themselves")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return work()
    workers = [Worker() for _ in range(PROCESSES)]
    for path in args.cases:
        with open(path, encoding="utf-8") as file:
            case = json.load(file)
        case.pop("also_observed", None)
        text = written(record(workers, case, args.n, args.t))
        target = os.path.join(args.o, os.path.basename(path)) if args.o else path
        with open(target, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
