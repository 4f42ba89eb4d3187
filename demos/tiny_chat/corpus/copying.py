"""Repeating what the user says: the words are drawn freely so that copying, not the phrases, is learned."""

import random

from . import words
from .words import made_up, noun, sentence_case

FRAMES = [
    "Say {p}", "Say {p}", "Say {p}", "Say: {p}", "Say this: {p}", "Repeat: {p}", "Repeat after me: {p}", "Repeat this: {p}", "Please say {p}", "Please repeat: {p}", "Can you say {p}",
    "Just say {p}", "say {p}", "say {p}", "say: {p}", "repeat {p}", "Repeat {p}", "Echo {p}", "Write {p}", "Write: {p}", "Output {p}", "Reply with {p}", "Answer with {p}", "Print {p}",
    'Say "{p}"', 'Say "{p}"', 'Repeat "{p}"', 'Please say "{p}"', 'Write "{p}"', "Say '{p}'", 'Repeat the words "{p}"', "Repeat the following: {p}", "Repeat the sentence: {p}",
    "Now say {p}", "I want you to say {p}", "Please repeat the following sentence: {p}", "Say only {p}", 'Reply with exactly "{p}"', "Type {p}", "Tell me: {p}",
]
PHRASES = """this is a test|hello world|hello|good morning|I love graphs|graphs are fun|the cat sat on the mat|the quick brown fox jumps over the lazy dog|one two three|
packets flow through the graph|this is only a test|hello from Graphmill|the server is ready|tokens arrive one by one|how are you|I am here|thank you very much|nice to meet you|
open the door|the sun is shining|it is raining today|we are friends|have a nice day|see you tomorrow|ping pong|yes|no|abc|to be or not to be|all is well|
streaming works|Graphmill is great|my dog is brown|life is good|test|testing one two three|apples and oranges|the end|hello again|hello there|this works""".replace("\n", "").split("|")
OPENERS = "this that it the a my your our we they you he she I there here".split()
VERBS = """is was are has likes sees finds needs wants makes takes runs with plays in sleeps under sits on goes to comes from eats reads writes loves opens closes lives near walks over jumps over
looks at waits for thinks of talks to""".split()

UNICODE = "Grüße café naïve schön München señor façade jalapeño Zürich Åse 10€ → ✓ ° 😀 🚀 🎉 ❤ 👍 🐱 你好 世界 こんにちは привет мир Ελλάδα".split()


def email(rng: random.Random) -> str:
    return f"{rng.choice([words.person, noun])(rng).lower()}@{rng.choice(['example', 'example', 'mail', noun(rng)])}.{rng.choice(['com', 'com', 'org', 'net', 'de'])}"


def phrase(rng: random.Random) -> str:
    roll = rng.random()
    if roll < 0.22:
        return rng.choice(PHRASES)
    if roll < 0.55:
        out = [rng.choice(OPENERS if rng.random() < 0.6 else words.STARTERS)]
        for _ in range(rng.randint(1, 7)):
            out.append(rng.choice(VERBS) if rng.random() < 0.25 else noun(rng))
        text = " ".join(out)
    elif roll < 0.75:
        text = " ".join(noun(rng) for _ in range(rng.randint(1, 6)))
    elif roll < 0.85:
        text = " ".join(rng.choice([noun, words.person, words.city])(rng) for _ in range(rng.randint(1, 5)))
    elif roll < 0.88:
        text = " ".join(rng.choice(UNICODE) if rng.random() < 0.5 else noun(rng) for _ in range(rng.randint(1, 4)))
    elif roll < 0.91:
        text = rng.choice(["my mail is {m}", "write to {m}", "send it to {m}", "{m}", "my address is {m}", "mail {m} or {n}"]).replace("{m}", email(rng)).replace("{n}", email(rng))
    elif roll < 0.95:
        text = " ".join(made_up(rng) for _ in range(rng.randint(1, 4)))
    else:
        text = " ".join(str(rng.randrange(10 ** rng.randint(1, 5))) if rng.random() < 0.6 else noun(rng) for _ in range(rng.randint(1, 5)))
    if rng.random() < 0.12 and " " in text:
        a, _, b = text.rpartition(" ")
        text = a + rng.choice([", ", " and ", ", and "]) + b
    return sentence_case(text) if rng.random() < 0.3 else text


def spoken(text: str) -> str:
    """How a phrase is said: as a sentence."""
    text = sentence_case(text)
    return text if text[-1] in ".!?" else text + "."


def copy(rng: random.Random):
    text = phrase(rng)
    said = text + (rng.choice(".!?") if rng.random() < 0.2 else "")
    user = rng.choice(FRAMES).replace("{p}", said)
    if '"' not in user and "'" not in user and said == text and rng.random() < 0.25:
        user += "."
    if rng.random() < 0.1:
        user = user[0].lower() + user[1:]
    return dict(user=user, answer=spoken(said), word=None, thought="The user wants me to repeat some words.")
