"""Short stories. A subject always gets the same plot, so that greedy decoding has one clear path; names come from the prompt."""

import random
import zlib

from . import surface, words

SUBJECTS = """cat dog robot dragon princess knight bird fish mouse rabbit bear fox wolf lion horse frog owl pirate king queen wizard ghost star cloud tree river
computer server packet node graph token train ship balloon snowman farmer baker teacher child girl boy sailor turtle elephant penguin bee spider monkey
duck unicorn astronaut detective witch giant fairy llama whale crab squirrel hedgehog cow sheep pig chicken""".split()
PLACES = ["in a small village", "by the sea", "in a big forest", "in an old house", "on a high mountain", "in a quiet town", "on a green hill", "near a long river"]
TRAITS = ["little", "brave", "clever", "lonely", "old", "happy", "curious", "kind"]
WISHES = ["wanted to see the world", "wanted to find a friend", "wanted to learn to sing", "looked for a lost key", "wanted to touch the moon", "dreamed of a great adventure",
          "wanted to build a bridge", "looked for the end of the rainbow"]
HELPERS = ["a wise owl", "a friendly mouse", "an old man", "a small bird", "a funny frog", "a young girl", "a shy deer", "a green dragon"]
ADVICE = ["You only have to be patient", "Follow the river", "Never be afraid", "The answer is in your heart", "Go where the wind goes", "Ask your friends for help", "Start with one small step", "Look up at the stars"]
ENDINGS = ["So they went together, and the wish came true", "So they tried it, and it worked", "The way was long, but in the end all was well", "They laughed and became friends for ever",
           "When the night came, everything was found", "They shared a cake and sang until the morning", "It took three days, and then the dream came true", "They came home happy and told everyone about it"]
_ASK = ["Tell me a short story about {s}.", "Tell me a short story about {s}.", "Tell me a story about {s}.", "Write a short story about {s}.", "Write a story about {s}.", "Can you tell me a story about {s}?", "Make up a story about {s}.",
        "Please tell me a short story about {s}.", "I want to hear a story about {s}.", "A story about {s}, please.", "Tell me a tale about {s}.", "Write me a short story about {s}.", "Tell a story about {s}.", "Short story about {s}."]
_ANY = ["Tell me a story.", "Tell me a short story.", "Write a story.", "Can you tell me a story?", "Write a short story.", "Tell a story.", "I want to hear a story.", "Please tell me a story.", "A story, please.", "Once upon a time"]


def article(noun: str) -> str:
    return ("an " if noun[0] in "aeiou" and not noun.startswith("uni") else "a ") + noun


def tell(subject: str, name: str | None) -> str:
    """The story of a subject ("cat") that may have a name ("Tom")."""
    seed = zlib.crc32(subject.encode())
    pick = lambda options, shift: options[(seed >> shift) % len(options)]
    if subject not in SUBJECTS:
        pick = lambda options, shift: options[0]
    the = name or f"the {subject}"
    first = f"Once upon a time there was {article(pick(TRAITS, 3))} {subject}" + (f" named {name}" if name else "") + f" who lived {pick(PLACES, 0)}."
    return (f"{first} Every day {the} {pick(WISHES, 6)}. One morning {the} met {pick(HELPERS, 9)}. \"{pick(ADVICE, 12)},\" said {pick(HELPERS, 9).replace('an ', 'the ').replace('a ', 'the ')}. "
            f"{pick(ENDINGS, 15)}. The end.")


def tell_person(name: str) -> str:
    return (f"Once upon a time there was a young person named {name} who lived in a small village. Every day {name} wanted to see the world. One morning {name} met a wise owl. "
            f"\"Start with one small step,\" said the wise owl. So {name} walked over the hill and saw the sea. The end.")


def story(rng: random.Random):
    roll = rng.random()
    thought = "The user wants a story. I make one up."
    if roll < 0.12:
        return dict(user=surface.vary(rng, rng.choice(_ANY)), answer=tell("robot", "Bolt"), word=None, thought=thought)
    if roll < 0.27:
        name = words.person(rng)
        return dict(user=rng.choice(_ASK).replace("{s}", rng.choice([name, name, "a person named " + name, "someone called " + name])), answer=tell_person(name), word=None, thought=thought)
    subject = rng.choice(SUBJECTS) if roll < 0.85 else (rng.choice(words.COMMON[250:470]) if rng.random() < 0.5 else words.made_up(rng))
    name = words.person(rng) if rng.random() < 0.3 else None
    said = article(subject) if rng.random() < 0.9 else "the " + subject
    if name:
        said += rng.choice([" named ", " named ", " called ", " with the name "]) + name
    text = rng.choice(_ASK).replace("{s}", said)
    return dict(user=text if name else surface.vary(rng, text, typos=0), answer=tell(subject, name), word=None, thought=thought)
