"""Varies how a person types the same thing: case, punctuation, courtesies, light typing errors."""

import random

BEFORE = ["please ", "hey, ", "hi, ", "hello, ", "so, ", "ok, ", "can you tell me: ", "quick question: ", "um, ", "well, ", "and "]
AFTER = [" please", " thanks", ", please", " in short", " for me", ", thank you", " now", " briefly"]


def typo(rng: random.Random, text: str) -> str:
    """Drops, doubles or swaps one letter inside a longer word."""
    spots = [i for i in range(1, len(text) - 2) if text[i - 1 : i + 2].isalpha() and text[i - 1 : i + 2].islower()]
    if not spots:
        return text
    i = rng.choice(spots)
    kind = rng.randrange(3)
    if kind == 0:
        return text[:i] + text[i + 1 :]
    if kind == 1:
        return text[:i] + text[i] + text[i:]
    return text[:i] + text[i + 1] + text[i] + text[i + 2 :]


def vary(rng: random.Random, text: str, typos=0.06, extras=0.12) -> str:
    """`text` is well written; the answer is what a person might have typed. Never changes a word that must be copied: pass such text unvaried."""
    end = text[-1] if text[-1] in "?.!" else ""
    body = text[: len(text) - len(end)]
    if rng.random() < extras:
        if rng.random() < 0.5:
            body = rng.choice(BEFORE) + (body[:1].lower() + body[1:] if not body.startswith("I ") else body)
            if rng.random() < 0.7:
                body = body[:1].upper() + body[1:]
        else:
            body += rng.choice(AFTER)
    roll = rng.random()
    if roll < 0.22:
        body = body.lower()
    elif roll < 0.34:
        body = body[:1].lower() + body[1:]
    elif roll < 0.36:
        body = body.upper()
    if rng.random() < typos:
        body = typo(rng, body)
    roll = rng.random()
    if roll < 0.25:
        end = ""
    elif roll < 0.28:
        end = end * 2
    elif roll < 0.30:
        end = " " + end
    elif not end and roll > 0.8:
        end = "."
    return body + end.rstrip() if end.strip() else body
