"""Trains the byte-level BPE tokenizer on the corpus.

The pre-tokenizer is GPT-2's (`tokenizer.ggml.pre = gpt-2`), so llama.cpp splits text exactly as this does. The two chat marks and the
end of text are control tokens; the tags of tools and thoughts are user-defined: one token each, and printed.
"""

import argparse
import random
import re
import string

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

import chat
import corpus
from corpus import words

CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
USER_DEFINED = ["<think>", "</think>", "<tools>", "</tools>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
VOCAB = 2048


def text_of(example) -> str:
    if "text" in example:
        return example["text"]
    return "".join(t for t, _ in chat.segments(example["messages"], example["tools"], example["only_last"], **example["kwargs"]))


def training_text(samples: int, seed: int):
    rng = random.Random(seed)
    for _ in range(samples):
        yield text_of(corpus.sample(rng))
    for _ in range(40):
        # every listed word as it stands inside and at the start of a sentence
        yield " " + " ".join(words.COMMON) + " " + " ".join(words.NAMES + words.CITIES)
    for _ in range(8):
        yield "\n".join(words.sentence_case(w) for w in words.COMMON)
    yield " ".join(f"{a}{b}" for a in string.printable for b in string.printable)


def train(samples=30000, seed=1) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB - len(CONTROL) - len(USER_DEFINED), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=[], show_progress=False
    )
    marks = re.compile("|".join(re.escape(t) for t in CONTROL + USER_DEFINED))
    pieces = (piece for text in training_text(samples, seed) for piece in marks.split(text) if piece)
    tokenizer.train_from_iterator(pieces, trainer)
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in CONTROL])
    tokenizer.add_tokens([AddedToken(t, special=False, normalized=False) for t in USER_DEFINED])
    return tokenizer


def load(path) -> Tokenizer:
    return Tokenizer.from_file(str(path))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="build/tokenizer.json")
    arguments = parser.parse_args()
    tokenizer = train()
    tokenizer.save(arguments.out)
    print(f"{tokenizer.get_vocab_size()} tokens -> {arguments.out}")


if __name__ == "__main__":
    main()
