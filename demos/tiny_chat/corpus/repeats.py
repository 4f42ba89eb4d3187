"""Rows of random tokens in which something comes again: dense practice in finding and copying, which every skill builds on.

Rows are token ids with their learned positions, not text, so that every token of the vocabulary takes part.
"""

import random


def _again(rng, vocab):
    """A run of tokens that comes two to four times, at times with others between; from the second time on it is learned."""
    run = [rng.randrange(vocab) for _ in range(rng.randint(2, 18))]
    ids, learned = list(run), [False] * len(run)
    for _ in range(rng.choice([1, 1, 2, 3])):
        between = [rng.randrange(vocab) for _ in range(rng.choice([0, 0, 1, 2, 4]))]
        ids += between + run
        learned += [False] * (len(between) + 1) + [True] * (len(run) - 1)
    return ids, learned


def _pairs(rng, vocab):
    """Pairs of a key and a value, and the pairs again in another order; the values are learned."""
    keys = rng.sample(range(vocab), rng.randint(2, 8))
    pairs = [(key, [rng.randrange(vocab) for _ in range(rng.choice([1, 1, 2, 3]))]) for key in keys]
    ids = [i for key, value in pairs for i in (key, *value)]
    learned = [False] * len(ids)
    rng.shuffle(pairs)
    for key, value in pairs:
        ids += [key, *value]
        learned += [False] + [True] * len(value)
    return ids, learned


def row(rng: random.Random, vocab: int):
    """(token ids, whether each is learned)."""
    return (_again if rng.random() < 0.75 else _pairs)(rng, vocab)
