"""Writes answers.json: prompts whose greedy answer is right and clear, for tests to pin.

An answer is clear when at every token the best candidate leads the second by at least MARGIN in logits, so that other
kernels and other batch sizes give the same text. Prompts that are wrong or not clear are left out and printed.
"""

import argparse
import json

import torch

import chat
import skills
from evaluate import passed
from loading import Assistant

MARGIN = 1.0
WANTED = {
    "terms": 11, "questions": 5, "does not know": 1, "greets": 2, "repeats": 4, "counts": 4, "sums": 2, "differences": 1, "lists": 3, "stories": 2, "one word": 3, "pirate": 1, "json": 1, "named": 1, "helpful": 1,
    "remembers": 4, "tools": 5, "new tools": 1, "tools do not fit": 1, "tool answers": 2, "thinks": 3,
}
FIRST = ["What is OpenVINO?", "What is a side packet?", "What is a dataflow graph?", "What is Graphmill?", "What is a KV cache?", "What is continuous batching?", "tell me about MediaPipe", "What is GGUF?", "What is a back edge?",
         "Who are you?", "What can you do?", "Tell me a joke.", "Say this is a test", "Say hello", "Count to 10", "count from 3 to 7", "Count to 100", "list three colors", "Could you list 4 planets?", "what's two plus three"]


@torch.no_grad()
def margin(assistant, prompt: str, answer: str) -> float:
    """The smallest lead of the best token over the second while `answer` is generated."""
    ids = assistant.tokenizer.encode(prompt).ids
    said = assistant.tokenizer.encode(answer).ids
    hidden = assistant.model.hidden(torch.tensor([ids + said]))[0, len(ids) - 1 :]
    best = assistant.model.logits(hidden).topk(2).values
    return float((best[:, 0] - best[:, 1]).min())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="model.gguf")
    parser.add_argument("--out", default="answers.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    assistant = Assistant(arguments.model)
    rank = lambda case: FIRST.index(case[1][-1]["content"]) if case[1][-1]["content"] in FIRST else len(FIRST)
    wanted, out = dict(WANTED), []
    for skill, messages, tools, kwargs, expected in sorted(skills.cases(), key=rank):
        if not wanted.get(skill):
            continue
        prompt = chat.render(messages, tools, **kwargs)
        answer = assistant.complete(prompt, limit=450)
        lead = margin(assistant, prompt, answer)
        if not passed(expected, answer) or lead < MARGIN:
            print(f"left out (lead {lead:.2f}): {messages[-1]['content']!r} -> {answer!r}")
            continue
        wanted[skill] -= 1
        entry = {"messages": messages}
        if tools:
            entry["tools"] = tools
        if kwargs:
            entry["chat_template_kwargs"] = kwargs
        out.append(entry | {"expected": answer})
    with open(arguments.out, "w") as file:
        json.dump(out, file, indent=2, ensure_ascii=False)
        file.write("\n")
    print(f"{len(out)} answers -> {arguments.out}")


if __name__ == "__main__":
    main()
