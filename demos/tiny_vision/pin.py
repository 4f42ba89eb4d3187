"""Writes samples/*.png and answers.json: pictures and questions whose greedy answers are right and clear, for tests to pin.

An answer is clear when at every token the best candidate leads the second by at least MARGIN in logits, so that other kernels and other
batches give the same text. Of TRIES pictures the one with the most such answers is taken; its other questions are left out and printed.
"""

import json
import random
from pathlib import Path

import torch
from PIL import Image

import chat
import pictures
import questions
from loading import Assistant

MARGIN = 1.0
TRIES = 20
HERE = Path(__file__).parent


SAMPLES = {
    "circle": (lambda rng: pictures.shapes(rng, ["red circle"]), {
        "What shape is this?": "A red circle.", "What color is the circle?": "Red.", "How many circles are there?": "One.", "Is there a star?": "No.",
    }),
    "star": (lambda rng: pictures.shapes(rng, ["yellow star"]), {"What do you see?": "A yellow star.", "What shape is this?": "A yellow star."}),
    "two": (lambda rng: pictures.shapes(rng, ["blue square", "green triangle"]), {
        "What do you see?": "A blue square and a green triangle.", "What color is the square?": "Blue.", "Which shape is green?": "The triangle.", "Is there a red circle?": "No.",
    }),
    "circles": (lambda rng: pictures.shapes(rng, ["purple circle", "black square", "purple circle"]), {
        "How many circles are there?": "Two.", "How many shapes are there?": "Three.", "What color are the circles?": "Purple.", "Is there a black square?": "Yes.",
    }),
    "stars": (lambda rng: pictures.shapes(rng, ["red star", "red star", "red star", "red star"]), {"How many stars are there?": "Four.", "Count the circles.": "Zero."}),
    **{f"digit-{value}": (lambda rng, value=value: pictures.digit(rng, value), {"Which digit is written here?": questions.number(value)}) for value in range(10)},
}


def stored(picture, path):
    """The picture as it is read back from its file, which has few colors and no other difference."""
    picture.image.quantize(16, dither=Image.Dither.NONE).convert("RGB").save(path, optimize=True)
    return pictures.Picture(Image.open(path).convert("RGB"), picture.things, picture.digit)


def main():
    torch.set_num_threads(1)
    assistant, out = Assistant(HERE), []
    (HERE / "samples").mkdir(exist_ok=True)
    for name, (draw, wanted) in SAMPLES.items():
        path, best, chosen = HERE / "samples" / f"{name}.png", [], 0
        for seed in range(TRIES):
            picture = stored(draw(random.Random(f"{name} {seed}")), path)
            answers = {q: assistant.answer([chat.user(None, q)], [picture]) for q in wanted}
            clear = [q for q, (answer, lead) in answers.items() if answer == wanted[q] and lead >= MARGIN]
            if len(clear) > len(best):
                best, chosen = clear, seed
            if len(best) == len(wanted):
                break
        stored(draw(random.Random(f"{name} {chosen}")), path)
        print(f"{name}: left out {[q for q in wanted if q not in best]}")
        out += [{"picture": f"samples/{name}.png", "question": q, "expected": wanted[q]} for q in best]
    for question in ("Hello!", "What shape is this?", "Who are you?"):
        answer, lead = assistant.answer([chat.user(question)], [])
        if lead >= MARGIN:
            out.append({"question": question, "expected": answer})
    (HERE / "answers.json").write_text(json.dumps(out, indent=2) + "\n")
    print(f"{len(out)} answers about {len(SAMPLES)} pictures")


if __name__ == "__main__":
    main()
