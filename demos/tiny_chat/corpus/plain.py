"""Plain text for completions without a chat template."""

import random

from . import copying, lists, questions, stories, words
from .knowledge import QUESTIONS, TERMS

PARAGRAPHS = [
    "Graphmill is an inference server written in Rust. Its pipelines are dataflow graphs, and a graph is a text file that lists nodes and the streams between them. A request enters the graph as a packet, and the answer leaves it as a stream of packets.",
    "A dataflow graph is a set of nodes joined by streams. Each node waits for its packets, does its work and sends new packets on. Nodes that do not depend on each other run at the same time.",
    "The KV cache keeps the keys and values of all tokens seen so far. It grows with every token, so a server must know how much memory it may use. When a request is finished, its cells become free again.",
    "Continuous batching is the heart of a language model server. Requests join the batch when they arrive and leave it when they are finished. No request waits for the slowest one.",
    "Large language models read and write tokens. A token is a small piece of text, often a word or a part of a word. The model looks at all tokens so far and predicts the next one.",
    "To serve a model with Graphmill, put a GGUF file into a folder, write a graph file and name both in config.json. Then start the server and send a request to /v3/chat/completions.",
    "The quick brown fox jumps over the lazy dog. The dog opens one eye, looks at the fox and goes back to sleep.",
    "MediaPipe graphs are written in the protobuf text format. Every node has a calculator, input streams and output streams. Side packets give a node the values that do not change while the graph runs.",
    "The first program that people write in a new language prints hello world. The second one often counts from one to ten.",
    "Rust is a programming language that is fast and safe. The compiler checks who owns each value, so that no memory is used after it was freed.",
]


def text(rng: random.Random) -> str:
    roll = rng.random()
    if roll < 0.3:
        return rng.choice(PARAGRAPHS)
    if roll < 0.4:
        start = rng.randint(0, 20)
        return ", ".join(str(n) for n in range(start, start + rng.randint(8, 20))) + "."
    if roll < 0.5:
        items = lists.LISTS[rng.choice([7, 8, 6])][1].split("|")
        return ", ".join(items) + "."
    if roll < 0.62:
        subject = rng.choice(stories.SUBJECTS)
        return stories.tell(subject, words.person(rng) if rng.random() < 0.3 else None)
    if roll < 0.72:
        spoken = copying.phrase(rng)
        return f"{rng.choice(['Say', 'Say', 'Repeat:', 'say'])} {spoken}\n\n{copying.spoken(spoken)}"
    if roll < 0.82:
        item = rng.choice([questions.term, questions.question])(rng)
        return f"{rng.choice(['Question', 'Q'])}: {item['user']}\nAnswer: {item['answer']}" if rng.random() < 0.5 else f"{item['user']}\n\n{item['answer']}"
    names, _, answer = rng.choice(TERMS)
    return answer if rng.random() < 0.8 else answer + " " + rng.choice(QUESTIONS)[2]
