"""Questions about a picture, in several wordings each, and their answers."""

import random

from pictures import COLORS, SHAPES, Picture

NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]

WORDINGS = {
    "shape": ["What shape is this?", "Which shape is this?", "Name the shape.", "What is this shape called?", "What kind of shape is it?"],
    "see": ["What do you see?", "What is in the picture?", "What is this?", "Describe the picture.", "Describe the image.", "What's in this image?", "What does the picture show?", "Tell me what you see."],
    "count": ["How many {}s are there?", "How many {}s do you see?", "Count the {}s.", "How many {}s are in the picture?", "How many {}s?", "What is the number of {}s?"],
    "color": ["What color is the {}?", "Which color is the {}?", "What color does the {} have?", "What is the color of the {}?", "Name the color of the {}."],
    "colors": ["What color are the {}s?", "Which color are the {}s?", "What color do the {}s have?", "What is the color of the {}s?"],
    "find": ["Which shape is {}?", "What shape is {}?", "What is {}?", "Which shape is the {} one?"],
    "is there": ["Is there a {}?", "Do you see a {}?", "Does the picture show a {}?", "Is there a {} in the picture?", "Can you see a {}?"],
    "digit": ["Which digit is written here?", "What digit is this?", "Which digit is this?", "What number is this?", "Which number is written here?", "Read the digit.", "What number do you see?", "What does it say?"],
}

ALONE = [
    (["Hello!", "Hi!", "Good morning!", "Hey there!"], "Hello! Show me a picture."),
    (["Who are you?", "What are you?", "What is your name?"], "I am tiny-vision. I look at small pictures."),
    (["What can you do?", "How can you help me?", "What do you know?"], "I name shapes and colors, count, and read digits."),
    (["Thank you!", "Thanks!"], "You are welcome."),
]
NO_PICTURE = "I see no picture."


def number(value: int) -> str:
    return NUMBERS[value].capitalize() + "."


def name(thing) -> str:
    return f"a {thing.color} {thing.shape}"


def description(picture: Picture) -> str:
    """The digit, or all shapes from left to right."""
    if picture.digit is not None:
        return f"The digit {NUMBERS[picture.digit]}."
    *first, last = map(name, picture.things)
    text = f"{', '.join(first)} and {last}" if first else last
    return text.capitalize() + "."


def count(rng, things):
    """What is counted, mostly something that is there, and how often it is there."""
    shape, color = rng.choice(SHAPES), rng.choice(list(COLORS))
    if things and rng.random() < 0.75:
        thing = rng.choice(things)
        shape, color = thing.shape, thing.color
    what, group = rng.choice([
        (shape, [t for t in things if t.shape == shape]), (shape, [t for t in things if t.shape == shape]),
        (f"{color} shape", [t for t in things if t.color == color]), ("shape", things),
    ])
    return what, number(len(group))


def color(rng, things):
    """(kind, shape, answer): the color of a shape that is there once or in one color, or the word that it is not there."""
    if rng.random() < 0.1:
        missing = [s for s in SHAPES if s not in {t.shape for t in things}]
        if missing:
            shape = rng.choice(missing)
            return "color", shape, f"I see no {shape}."
    shape = rng.choice(sorted({t.shape for t in things}))
    group = [t for t in things if t.shape == shape]
    if len({t.color for t in group}) > 1:
        return None
    return "color" if len(group) == 1 else "colors", shape, f"{group[0].color.capitalize()}."


def find(rng, things):
    """The shape that has a color which no other has."""
    colors = [t.color for t in things]
    alone = [t for t in things if colors.count(t.color) == 1]
    if not alone:
        return None
    thing = rng.choice(alone)
    return thing.color, f"The {thing.shape}."


def is_there(rng, things):
    """A shape, with or without a color, that is or is not there."""
    shape, color = rng.choice(SHAPES), rng.choice(list(COLORS))
    if things and rng.random() < 0.6:
        thing = rng.choice(things)
        shape = thing.shape if rng.random() < 0.8 else shape
        color = thing.color if rng.random() < 0.7 else color
    if rng.random() < 0.5:
        return shape, "Yes." if any(t.shape == shape for t in things) else "No."
    return f"{color} {shape}", "Yes." if any((t.shape, t.color) == (shape, color) for t in things) else "No."


def draw(rng: random.Random, picture: Picture):
    """(kind, what the wording names, answer), or None when the picture is not one for the kind that was drawn."""
    things = picture.things
    if picture.digit is not None:
        kind = rng.choices(["digit", "see", "is there", "count"], [8, 2, 0.5, 0.5])[0]
    else:
        kind = rng.choices(["shape", "see", "count", "color", "find", "is there", "digit"], [3 if len(things) == 1 else 0, 2, 4, 3, 1.5, 2, 0.2])[0]
    if kind == "digit":
        return kind, "", number(picture.digit) if picture.digit is not None else "I see no digit."
    if kind in ("see", "shape"):
        return kind, "", description(picture)
    if kind == "color":
        return color(rng, things)
    answered = {"count": count, "find": find, "is there": is_there}[kind](rng, things)
    return answered and (kind, *answered)


def careless(rng, question: str) -> str:
    """As people type it, some of the time."""
    if rng.random() < 0.15:
        question = question[0].lower() + question[1:]
    if rng.random() < 0.1:
        question = question.rstrip("?.!")
    return question


def ask(rng: random.Random, picture: Picture):
    """(kind, question, answer) about a picture."""
    while True:
        drawn = draw(rng, picture)
        if drawn:
            kind, what, answer = drawn
            return kind.replace("colors", "color"), rng.choice(WORDINGS[kind]).format(what), answer


def ask_nothing(rng: random.Random, picture: Picture):
    """(question, answer) without a picture: small talk, or a question that needs one (`picture` is only to have something to ask)."""
    if rng.random() < 0.5:
        wordings, answer = rng.choice(ALONE)
        return rng.choice(wordings), answer
    return ask(rng, picture)[1], NO_PICTURE
