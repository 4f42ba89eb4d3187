"""Dense practice of two small skills: a word written in another place (quoted, or first in a sentence), and one-digit arithmetic.

A word is another token with and without the space before it, so quoting and capitalising must be learned token by token.
Drills are lists of (text, learned).
"""

import json
import random

from . import words
from .numbers import one_digit


def _word(rng):
    return rng.choices([words.noun, words.person, words.city, words.made_up, lambda r: str(r.randrange(10 ** r.randint(1, 4)))], [50, 14, 16, 12, 8])[0](rng)


def _respelled(rng):
    chosen = [_word(rng) for _ in range(rng.randint(3, 10))]
    said = [(rng.choice(["words: ", "in ", "Say ", "the "]) + " ".join(chosen) + "\n", False)]
    roll = rng.random()
    if roll < 0.5:
        return said + [(json.dumps(chosen, ensure_ascii=False), True)]
    if roll < 0.7:
        return said + [piece for w in chosen for piece in (('{"word": "', False), (w + '"}', True), ("\n", False))]
    return said + [piece for w in chosen for piece in ((words.sentence_case(w) + ".", True), ("\n", False))]


def _sums(rng):
    out = []
    for _ in range(rng.randint(4, 10)):
        a, sign, b, result = one_digit(rng)
        out += [(f"{a} {sign} {b} =", False), (f" {result}.", True), (" ", False)]
    return out


def drill(rng: random.Random):
    return (_respelled if rng.random() < 0.7 else _sums)(rng)
