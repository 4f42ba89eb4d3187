"""Turns corpus examples into batches of similar length, so that little is spent on padding."""

import random

import torch

import chat
import corpus
from corpus import drills, repeats

POOL = 800
LONGEST = 1100
DRILL_SHARE = 0.15


def encode(tokenizer, example):
    """(token ids, whether each is learned)."""
    if "text" in example:
        ids = tokenizer.encode(example["text"]).ids + [tokenizer.token_to_id("<|endoftext|>")]
        return ids, [True] * len(ids)
    return encode_segments(tokenizer, chat.segments(example["messages"], example["tools"], example["only_last"], **example["kwargs"]))


def encode_segments(tokenizer, segments):
    ids, learned = [], []
    for text, learn in segments:
        piece = tokenizer.encode(text).ids
        ids += piece
        learned += [learn] * len(piece)
    return ids, learned


def collate(rows):
    """tokens [batch, length], flat positions that are learned from, and the token that follows each."""
    length = max(len(ids) for ids, _ in rows) - 1
    tokens = torch.zeros(len(rows), length, dtype=torch.long)
    positions, targets = [], []
    for r, (ids, learned) in enumerate(rows):
        tokens[r, : len(ids) - 1] = torch.tensor(ids[:-1])
        for i in range(1, len(ids)):
            if learned[i]:
                positions.append(r * length + i - 1)
                targets.append(ids[i])
    return tokens, torch.tensor(positions), torch.tensor(targets)


def draw(tokenizer, rng: random.Random, repeat_share: float):
    """One row: random tokens that come again, a drill, or an example of the corpus."""
    if rng.random() < repeat_share:
        return repeats.row(rng, tokenizer.get_vocab_size())
    if rng.random() < DRILL_SHARE:
        return encode_segments(tokenizer, drills.drill(rng))
    return encode(tokenizer, corpus.sample(rng))


def batches(tokenizer, rng: random.Random, tokens_per_batch: int, repeat_share):
    """Endless batches of at least two rows; the order of lengths is shuffled within a pool. `repeat_share()` is asked for each pool."""
    while True:
        pool = [draw(tokenizer, rng, repeat_share()) for _ in range(POOL)]
        pool = sorted((row for row in pool if len(row[0]) <= LONGEST), key=lambda row: len(row[0]))
        groups, rows = [], []
        for row in pool:
            if len(rows) > 1 and (len(rows) + 1) * len(row[0]) > tokens_per_batch:
                groups.append(rows)
                rows = []
            rows.append(row)
        if len(rows) > 1:
            groups.append(rows)
        rng.shuffle(groups)
        yield from map(collate, groups)
