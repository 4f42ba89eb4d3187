"""Trains the text classifier on messages that texts.py makes up, and writes model.onnx and labels.txt."""

import random
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import texts
from hashing import BUCKETS, vector

HERE = Path(__file__).parent
HIDDEN = 20
MESSAGES, EPOCHS, BATCH = 9000, 12, 64


def train(rng, x, y):
    first = rng.normal(0, 0.3, (BUCKETS, HIDDEN)).astype(np.float32)
    last = rng.normal(0, 0.3, (HIDDEN, len(texts.TOPICS))).astype(np.float32)
    values = [first, np.zeros(HIDDEN, np.float32), last, np.zeros(len(texts.TOPICS), np.float32)]
    moments = [(np.zeros_like(it), np.zeros_like(it)) for it in values]
    step = 0
    for epoch in range(EPOCHS):
        rate, losses = 3e-3 * (1 - epoch / EPOCHS), []
        for chosen in np.array_split(rng.permutation(len(x)), len(x) // BATCH):
            hidden = np.maximum(x[chosen] @ values[0] + values[1], 0)
            scores = hidden @ values[2] + values[3]
            shares = np.exp(scores - scores.max(1, keepdims=True))
            shares /= shares.sum(1, keepdims=True)
            losses.append(-np.log(shares[np.arange(len(chosen)), y[chosen]] + 1e-9).mean())
            shares[np.arange(len(chosen)), y[chosen]] -= 1
            grad, step = shares / len(chosen), step + 1
            back = grad @ values[2].T * (hidden > 0)
            grads = [x[chosen].T @ back + 1e-6 * values[0], back.sum(0), hidden.T @ grad, grad.sum(0)]
            for value, g, (m, v) in zip(values, grads, moments):  # Adam
                m += 0.1 * (g - m)
                v += 0.001 * (g * g - v)
                value -= rate * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
        print(f"epoch {epoch}: loss {np.mean(losses):.3f}", flush=True)
    return values


def scores(values, x):
    return np.maximum(x @ values[0] + values[1], 0) @ values[2] + values[3]


def export(values, path):
    names = ["first_weight", "first_bias", "last_weight", "last_bias"]
    weights = [numpy_helper.from_array(np.ascontiguousarray(value, np.float32), name) for value, name in zip(values, names)]
    nodes = [
        helper.make_node("Gemm", ["features", *names[:2]], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["relu"]),
        helper.make_node("Gemm", ["relu", *names[2:]], ["scores"]),
    ]
    graph = helper.make_graph(
        nodes,
        "text_classifier",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", BUCKETS])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", len(texts.TOPICS)])],
        weights,
    )
    opset = helper.make_opsetid("", 17)
    model = helper.make_model(graph, producer_name="graphmill demo", opset_imports=[opset], ir_version=8)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())


def main():
    rng, numbers = random.Random(1), np.random.default_rng(1)
    every = {topic: texts.sentences(topic) for topic in texts.TOPICS}
    # Every sixth sentence is not trained on.
    used = {topic: [it for at, it in enumerate(of) if at % 6] for topic, of in every.items()}
    held = {topic: of[::6] for topic, of in every.items()}

    def make(of, count):
        topics = [rng.choice(texts.TOPICS) for _ in range(count)]
        vectors = np.stack([vector(texts.message(rng, topic, of)) for topic in topics])
        return vectors, np.array([texts.TOPICS.index(topic) for topic in topics])

    values = train(numbers, *make(used, MESSAGES))
    x, y = make(held, 600)
    print(f"right of 600 messages with sentences that were not trained on: {(scores(values, x).argmax(1) == y).sum()}")
    x = np.stack([vector(text) for text, _ in texts.UNSEEN])
    guesses = [texts.TOPICS[it] for it in scores(values, x).argmax(1)]
    print(f"right of {len(guesses)} written by hand: {sum(guess == topic for guess, (_, topic) in zip(guesses, texts.UNSEEN))}")
    for (text, topic), guess in zip(texts.UNSEEN, guesses):
        if topic != guess:
            print(f"  {text!r}: {guess}, not {topic}")
    export(values, HERE / "model.onnx")
    (HERE / "labels.txt").write_text("".join(f"{topic}\n" for topic in texts.TOPICS))


if __name__ == "__main__":
    main()
