"""Asks the model about pictures that it has not seen, greedily, and prints right/total for each kind of question (--verbose: every failure).

Without --url, PyTorch computes what the GGUF files say. With it, a running server answers.
"""

import argparse
import base64
import io
import json
import random
import urllib.request
from collections import Counter

import torch

import chat
import pictures
import questions
from loading import Assistant

SEED = 10**6  # far from the seeds of training
KINDS = ["shape", "see", "count", "color", "find", "is there", "digit", "behind", "second", "none"]


def case(rng, kind):
    """(messages, pictures, expected): a question of a kind, or one behind its picture, about the second picture, or without any."""
    one = pictures.picture(rng)
    if kind == "none":
        question, answer = questions.ask_nothing(rng, one)
        return [chat.user(question)], [], answer
    _, question, answer = asked = questions.ask(rng, one)
    if kind == "behind":
        return [chat.user(question, None)], [one], answer
    if kind == "second":
        two = pictures.picture(rng)
        _, other, last = questions.ask(rng, two)
        return [chat.user(None, question), chat.assistant(answer), chat.user(None, other)], [one, two], last
    while asked[0] != kind:
        one = pictures.picture(rng)
        asked = questions.ask(rng, one)
    return [chat.user(None, asked[1])], [one], asked[2]


def data_url(image) -> str:
    file = io.BytesIO()
    image.save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


class Server:
    """Greedy answers of a server."""

    def __init__(self, url, model):
        self.url, self.model = url.rstrip("/") + "/chat/completions", model

    def answer(self, messages, shown):
        waiting = iter(shown)
        spell = lambda part: part if part["type"] == "text" else {"type": "image_url", "image_url": {"url": data_url(next(waiting).image)}}
        spelled = [m | {"content": [spell(p) for p in m["content"]]} if m["role"] == "user" else m for m in messages]
        body = {"model": self.model, "messages": spelled, "temperature": 0, "max_tokens": 40}
        request = urllib.request.Request(self.url, json.dumps(body).encode(), {"content-type": "application/json"})
        with urllib.request.urlopen(request) as response:
            return json.load(response)["choices"][0]["message"]["content"], None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default=".", help="where model.gguf and mmproj.gguf are")
    parser.add_argument("--url", help="the base URL of a server, such as http://127.0.0.1:8000/v3")
    parser.add_argument("--model", default="graphmill/tiny-vision", help="the server's name of the model")
    parser.add_argument("--each", type=int, default=200, help="questions of a kind")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    asked = Server(arguments.url, arguments.model) if arguments.url else Assistant(arguments.folder)
    right = Counter()
    for kind in KINDS:
        rng = random.Random(f"{SEED} {kind}")
        for _ in range(arguments.each):
            messages, shown, expected = case(rng, kind)
            answer, _ = asked.answer(messages, shown)
            right[kind] += answer == expected
            if answer != expected and arguments.verbose:
                print(f"[{kind}] {chat.render(messages)!r}\n    -> {answer!r}, not {expected!r}")
        print(f"{kind:10} {right[kind]:4}/{arguments.each}", flush=True)
    print(f"{'all':10} {right.total():4}/{arguments.each * len(KINDS)}")


if __name__ == "__main__":
    main()
