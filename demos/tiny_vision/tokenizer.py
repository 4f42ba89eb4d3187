"""Trains the byte-level BPE tokenizer on questions and answers. GPT-2's pre-tokenizer (`tokenizer.ggml.pre = gpt-2`) splits as llama.cpp does."""

import argparse
import random
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

import pictures
import questions

CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
SYSTEMS = ["You are a helpful assistant.", "You look at pictures.", "Answer briefly.", "You are tiny-vision.", "Be short and exact."]
VOCAB = 512


def texts(samples: int, seed: int):
    rng = random.Random(seed)
    yield from ["user\n", "assistant\n", "system\n"] * 50 + SYSTEMS * 5
    for _ in range(samples):
        picture = pictures.Picture(None, digit=rng.randrange(10))
        if rng.random() < 0.8:
            things = [pictures.Thing(rng.choice(list(pictures.COLORS)), rng.choice(pictures.SHAPES), 0, 0, 0) for _ in range(rng.randint(1, 4))]
            picture = pictures.Picture(None, things)
        _, question, answer = questions.ask(rng, picture)
        yield questions.careless(rng, question)
        yield answer
        yield questions.ask_nothing(rng, picture)[1]


def train(samples=6000, seed=1) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCAB - len(CONTROL), initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), special_tokens=[], show_progress=False)
    tokenizer.train_from_iterator(texts(samples, seed), trainer)
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in CONTROL])
    return tokenizer


def load(path) -> Tokenizer:
    return Tokenizer.from_file(str(path))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="build/tokenizer.json")
    arguments = parser.parse_args()
    tokenizer = train()
    Path(arguments.out).parent.mkdir(exist_ok=True)
    tokenizer.save(arguments.out)
    print(f"{tokenizer.get_vocab_size()} tokens -> {arguments.out}")


if __name__ == "__main__":
    main()
