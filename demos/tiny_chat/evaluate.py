"""Asks a GGUF the held-out prompts of skills.py, greedily, and prints passed/total for each skill (--verbose: every failure)."""

import argparse
from collections import Counter

import torch

import chat
import skills
from loading import Assistant


def passed(expected, answer) -> bool:
    if isinstance(expected, str):
        return answer == expected
    try:
        return bool(expected(answer))
    except (ValueError, LookupError):
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="model.gguf")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--every", type=int, default=1, help="take every n-th prompt")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    assistant = Assistant(arguments.model)
    total, good = Counter(), Counter()
    for i, (skill, messages, tools, kwargs, expected) in enumerate(skills.cases()):
        if i % arguments.every and skill in ("terms", "questions", "sums", "differences", "lists"):
            continue
        answer = assistant.complete(chat.render(messages, tools, **kwargs), limit=450)
        total[skill] += 1
        if passed(expected, answer):
            good[skill] += 1
        elif arguments.verbose:
            print(f"[{skill}] {messages[-1]['content']!r}\n    -> {answer!r}")
    for skill in total:
        print(f"{skill:20} {good[skill]:4}/{total[skill]}")
    print(f"{'all':20} {sum(good.values()):4}/{sum(total.values())}")


if __name__ == "__main__":
    main()
