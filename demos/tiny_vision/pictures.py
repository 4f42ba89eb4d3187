"""The pictures: a few colored shapes on light paper, or one digit as a hand writes it, with what is to be seen in them."""

import math
import random
from dataclasses import dataclass, field

import numpy as np
from PIL import Image, ImageDraw

SIDE = 192  # pixels of a picture as it is drawn
SEEN = 48  # pixels of a picture as the model sees it
PAD = (122, 116, 104)  # what libmtmd puts beside a picture that is not square

COLORS = {
    "red": (215, 35, 35), "green": (40, 150, 60), "blue": (40, 80, 210),
    "yellow": (240, 205, 40), "purple": (135, 50, 165), "black": (25, 25, 25),
}
SHAPES = ["circle", "square", "triangle", "star"]

# The strokes of each digit in a box of 1x1, some written in more than one way. A stroke is a smooth line through its points.
# A point that is given twice is a corner.
DIGITS = {
    0: [[[(0.5, 0), (0.12, 0.2), (0.05, 0.55), (0.25, 0.95), (0.65, 0.95), (0.93, 0.6), (0.88, 0.2), (0.5, 0)]]],
    1: [[[(0.5, 0), (0.5, 1)]], [[(0.2, 0.25), (0.55, 0), (0.55, 0), (0.55, 1)]],
        [[(0.25, 0.22), (0.5, 0), (0.5, 0), (0.5, 1)], [(0.2, 1), (0.8, 1)]]],
    2: [[[(0.08, 0.25), (0.3, 0.02), (0.75, 0.05), (0.85, 0.35), (0.5, 0.68), (0.05, 1), (0.05, 1), (0.95, 1)]],
        [[(0.1, 0.3), (0.4, 0), (0.85, 0.2), (0.6, 0.6), (0.2, 0.95), (0.2, 0.8), (0.5, 0.9), (0.95, 0.95)]]],
    3: [[[(0.1, 0.1), (0.5, 0), (0.85, 0.2), (0.4, 0.46), (0.4, 0.46), (0.9, 0.7), (0.5, 1), (0.08, 0.88)]],
        [[(0.1, 0), (0.85, 0), (0.85, 0), (0.42, 0.4), (0.42, 0.4), (0.9, 0.65), (0.55, 1), (0.08, 0.9)]]],
    4: [[[(0.6, 0), (0.05, 0.65), (0.05, 0.65), (0.95, 0.65)], [(0.68, 0.35), (0.68, 1)]],
        [[(0.15, 0), (0.1, 0.5), (0.1, 0.5), (0.9, 0.5)], [(0.8, 0), (0.75, 1)]],
        [[(0.75, 1), (0.75, 0), (0.75, 0), (0.05, 0.7), (0.05, 0.7), (0.98, 0.7)]]],
    5: [[[(0.85, 0), (0.2, 0), (0.2, 0), (0.15, 0.45), (0.15, 0.45), (0.6, 0.36), (0.9, 0.65), (0.6, 1), (0.08, 0.92)]]],
    6: [[[(0.75, 0), (0.3, 0.28), (0.08, 0.7), (0.4, 1), (0.85, 0.82), (0.7, 0.5), (0.35, 0.5), (0.1, 0.75)]]],
    7: [[[(0.05, 0), (0.92, 0), (0.92, 0), (0.35, 1)]],
        [[(0.05, 0), (0.92, 0), (0.92, 0), (0.4, 1)], [(0.3, 0.5), (0.85, 0.5)]]],
    8: [[[(0.5, 0.46), (0.15, 0.2), (0.5, 0), (0.85, 0.2), (0.5, 0.46), (0.08, 0.78), (0.5, 1), (0.92, 0.78), (0.5, 0.46)]],
        [[(0.82, 0.12), (0.4, 0), (0.2, 0.25), (0.8, 0.7), (0.5, 1), (0.12, 0.8), (0.5, 0.45), (0.82, 0.12)]]],
    9: [[[(0.85, 0.28), (0.5, 0), (0.12, 0.25), (0.4, 0.52), (0.85, 0.28), (0.85, 0.28), (0.82, 1)]],
        [[(0.88, 0.25), (0.5, 0), (0.12, 0.28), (0.45, 0.52), (0.88, 0.25), (0.8, 0.7), (0.3, 1)]]],
}


@dataclass
class Thing:
    """One shape: what it is, and where and how large it is as shares of the picture's side."""

    color: str
    shape: str
    x: float
    y: float
    radius: float


@dataclass
class Picture:
    """An image and what is in it: shapes from left to right, or a digit."""

    image: Image.Image
    things: list[Thing] = field(default_factory=list)
    digit: int | None = None


def outline(shape, x, y, radius, turn):
    """The corners of a shape around (x, y)."""
    if shape == "star":
        steps, radii = 10, (radius * 1.1, radius * 0.45)
    else:
        steps, radii = {"square": 4, "triangle": 3}[shape], (radius * 1.1,)
    start = turn - math.pi / (4 if shape == "square" else 2)
    angles = [start + 2 * math.pi * i / steps for i in range(steps)]
    return [(x + radii[i % len(radii)] * math.cos(a), y + radii[i % len(radii)] * math.sin(a)) for i, a in enumerate(angles)]


def vary(rng, color, by):
    return tuple(min(255, max(0, c + rng.randint(-by, by))) for c in color)


def paper(rng, width=SIDE, height=SIDE):
    light = rng.randint(215, 255)
    return Image.new("RGB", (width, height), vary(rng, (light, light, light), 8))


def place(rng, count, width, height):
    """Centers and radii of shapes that do not touch, from left to right, no two above each other; None when they do not fit."""
    spots = []
    for _ in range(200):
        radius = rng.uniform(28, 70) if count == 1 else rng.uniform(22, 34 if count < 4 else 29)
        x, y = rng.uniform(radius + 6, width - radius - 6), rng.uniform(radius + 6, height - radius - 6)
        if all(math.dist((x, y), s[:2]) > 1.12 * (radius + s[2]) + 6 and abs(x - s[0]) > 20 for s in spots):
            spots.append((x, y, radius))
            if len(spots) == count:
                return sorted(spots)
    return None


def shapes(rng, wanted=None) -> Picture:
    """One to four shapes in a picture that is square or nearly so, or the `wanted` ones ("red circle"), from left to right, in a square one."""
    count = len(wanted) if wanted else rng.choice([1, 1, 2, 2, 3, 3, 4])
    width = height = SIDE
    if rng.random() < 0.15 and not wanted:
        width, height = rng.choice([(SIDE, 160), (160, SIDE), (SIDE, 176), (176, SIDE)])
    spots = None
    while spots is None:
        spots = place(rng, count, width, height)
    image = paper(rng, width, height)
    draw = ImageDraw.Draw(image)
    # Few kinds at a time, so that some questions have an answer above one.
    kinds, colors = rng.sample(SHAPES, rng.randint(1, 3)), rng.sample(list(COLORS), rng.randint(1, 4))
    things = []
    for i, (x, y, radius) in enumerate(spots):
        color, shape = wanted[i].split() if wanted else (rng.choice(colors), rng.choice(kinds))
        fill = vary(rng, COLORS[color], 18)
        if shape == "circle":
            draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=fill)
        else:
            turn = rng.uniform(-0.3, 0.3) if shape != "square" else rng.uniform(-0.25, 0.25)
            draw.polygon(outline(shape, x, y, radius, turn), fill=fill)
        side = max(width, height)
        things.append(Thing(color, shape, (x + (side - width) / 2) / side, (y + (side - height) / 2) / side, radius / side))
    return Picture(image, things)


def smooth(points, steps=8):
    """A line through the points (Catmull-Rom), with corners where a point is doubled."""
    points = np.asarray([points[0], *points, points[-1]], float)
    t = np.linspace(0, 1, steps, endpoint=False)[:, None]
    out = []
    for before, a, b, after in zip(points, points[1:], points[2:], points[3:]):
        out.append(0.5 * (2 * a + (b - before) * t + (2 * before - 5 * a + 4 * b - after) * t**2 + (3 * a - before - 3 * b + after) * t**3))
    return np.concatenate([*out, points[-1:]])


def digit(rng, value=None) -> Picture:
    """A digit in dark ink that fills much of the picture."""
    value = rng.randrange(10) if value is None else value
    image = paper(rng)
    draw = ImageDraw.Draw(image)
    ink = vary(rng, rng.choice([(20, 20, 20), (25, 35, 110), (70, 20, 20)]), 15)
    height = rng.uniform(0.55, 0.88) * SIDE
    width = height * rng.uniform(0.5, 0.85)
    thick = rng.uniform(7, 20)
    slant, turn = rng.uniform(-0.25, 0.25), rng.uniform(-0.15, 0.15)
    matrix = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]]) @ np.array([[width, -slant * height], [0, height]])
    wobble = rng.uniform(0, 0.035)
    strokes = []
    for stroke in rng.choice(DIGITS[value]):
        moved, points = {}, []
        for point in stroke:  # a doubled point stays doubled
            moved.setdefault(point, np.array(point) + [rng.gauss(0, wobble), rng.gauss(0, wobble)])
            points.append(moved[point])
        strokes.append((smooth(points) - 0.5) @ matrix.T)
    every = np.concatenate(strokes)
    low, high = every.min(0) - thick / 2 - 4, every.max(0) + thick / 2 + 4
    shift = [rng.uniform(-a, SIDE - b) if b - a < SIDE else SIDE / 2 - (a + b) / 2 for a, b in zip(low, high)]
    for stroke in strokes:
        points = [tuple(p) for p in stroke + shift]
        draw.line(points, fill=ink, width=round(thick), joint="curve")
        for x, y in (points[0], points[-1]):
            draw.ellipse((x - thick / 2, y - thick / 2, x + thick / 2, y + thick / 2), fill=ink)
    return Picture(image, digit=value)


def picture(rng: random.Random) -> Picture:
    """Shapes, or now and then a digit."""
    return digit(rng) if rng.random() < 0.3 else shapes(rng)


def seen(image: Image.Image) -> np.ndarray:
    """The pixels [SEEN, SEEN, 3] that the model gets, as libmtmd makes them: scaled to fit, and padded in the middle."""
    image = image.convert("RGB")
    scale = min(SEEN / image.width, SEEN / image.height)
    size = [min(math.ceil(length * scale), SEEN) for length in image.size]
    page = Image.new("RGB", (SEEN, SEEN), PAD)
    page.paste(image.resize(size, Image.Resampling.BICUBIC), [(SEEN - length) // 2 for length in size])
    return np.asarray(page)
