"""Turns pictures and questions into batches.

Most rows hold one picture and several conversations about it: each sees the picture and itself, and no other, so that the picture is
computed once. Some rows are as long as one conversation and have the picture behind the question, two pictures, or none.
"""

import random
from dataclasses import dataclass

import numpy as np
import torch

import chat
import pictures
import questions
from tokenizer import SYSTEMS

ROOM = 160  # tokens of a row: so many conversations about one picture as fit
CELLS = 1 + len(pictures.SHAPES), 1 + len(pictures.COLORS), 2  # what a patch can tell: the shape and the color there, whether a shape's middle is
COUNTS = [5] * (len(pictures.SHAPES) + len(pictures.COLORS) + 1)  # what the whole tells: how many of each shape, of each color, in all (0-4)
WHOLE = *COUNTS, 11  # and the digit, or none


@dataclass
class Row:
    """Tokens in groups; each token sees group 0 and its own up to itself. A picture is None among the tokens of group 0."""

    pictures: list
    groups: list  # of lists of (token or None, learned)


def system(rng):
    return [{"role": "system", "content": rng.choice(SYSTEMS)}] if rng.random() < 0.15 else []


class Encoder:
    def __init__(self, tokenizer, image_tokens: int):
        self.tokenizer, self.image_tokens = tokenizer, image_tokens

    def text(self, text, learned=False):
        return [(token, learned) for token in self.tokenizer.encode(text).ids]

    def prompt(self, messages):
        """The prompt of a conversation, cut at its pictures."""
        return [self.text(part) for part in chat.render(messages).split(chat.MARKER)]

    def answered(self, text):
        return self.text(text + chat.END, learned=True)

    def conversation(self, rng, picture, before):
        """What follows a picture: a question with its answer, sometimes two. `before` is what the prompt begins with."""
        tail = lambda messages: self.prompt(messages)[1]
        _, question, answer = questions.ask(rng, picture)
        messages = before + [chat.user(None, questions.careless(rng, question))]
        out = tail(messages) + self.answered(answer)
        if rng.random() < 0.2:
            _, question, again = questions.ask(rng, picture)
            longer = messages + [chat.assistant(answer), chat.user(questions.careless(rng, question))]
            known = chat.render(messages) + answer + chat.END
            out += self.text(chat.render(longer)[len(known):]) + self.answered(again)
        return out

    def row(self, rng) -> Row:
        before, one = system(rng), pictures.picture(rng)
        kind = rng.random()
        if kind < 0.8:
            groups = [self.prompt(before + [chat.user(None, "")])[0] + [(None, False)]]
            room = ROOM - len(groups[0]) - self.image_tokens
            while room > 0:
                groups.append(self.conversation(rng, one, before))
                room -= len(groups[-1])
            return Row([one], groups[:-1])  # the last was too long
        if kind < 0.9:
            _, question, answer = questions.ask(rng, one)
            head, tail = self.prompt(before + [chat.user(questions.careless(rng, question), None)])
            return Row([one], [head + [(None, False)] + tail + self.answered(answer)])
        if kind < 0.95:
            two = pictures.picture(rng)
            (_, question, answer), (_, other, last) = questions.ask(rng, one), questions.ask(rng, two)
            head, middle, tail = self.prompt(before + [chat.user(None, question), chat.assistant(answer), chat.user(None, other)])
            return Row([one, two], [head + [(None, False)] + middle + [(None, False)] + tail + self.answered(last)])
        question, answer = questions.ask_nothing(rng, one)
        return Row([], [self.prompt(before + [chat.user(questions.careless(rng, question))])[0] + self.answered(answer)])


def pixels(shown) -> torch.Tensor:
    side = pictures.SEEN
    return torch.from_numpy(np.stack([pictures.seen(p.image) for p in shown])) if shown else torch.zeros(0, side, side, 3, dtype=torch.uint8)


def hints(shown, patch: int):
    """What each patch and each whole picture tell, as classes [pictures, patches, CELLS] and [pictures, WHOLE]: the encoder learns from these, too."""
    across = pictures.SEEN // patch
    cells = torch.zeros(len(shown), across, across, len(CELLS), dtype=torch.long)
    whole = torch.zeros(len(shown), len(WHOLE), dtype=torch.long)
    middle = (torch.arange(across) + 0.5) / across
    for cell, all_of, picture in zip(cells, whole, shown):
        all_of[-1] = 10 if picture.digit is None else picture.digit
        for thing in picture.things:
            shape, color = pictures.SHAPES.index(thing.shape), list(pictures.COLORS).index(thing.color)
            inside = (middle[:, None] - thing.y) ** 2 + (middle[None, :] - thing.x) ** 2 < (0.8 * thing.radius) ** 2
            y, x = int(thing.y * across), int(thing.x * across)
            inside[y, x] = True
            cell[inside, 0], cell[inside, 1] = 1 + shape, 1 + color
            cell[y, x, 2] = 1
            for counted in (shape, len(pictures.SHAPES) + color, len(COUNTS) - 1):
                all_of[counted] += 1
    return cells.flatten(1, 2), whole


def collate(rows, image_tokens: int):
    """Rows as tensors: tokens, slots of pictures, positions, mask [rows, 1, length, length], flat positions that are learned from, and what follows each."""
    spread = [[[(t, l) for token, learned in group for t, l in ([(token, learned)] if token is not None else [(None, False)] + [(0, False)] * (image_tokens - 1))]
               for group in row.groups] for row in rows]
    length = -(-max(sum(map(len, groups)) for groups in spread) // 16) * 16
    tokens, positions = torch.zeros(2, len(rows), length, dtype=torch.long)
    group_of = torch.full((len(rows), length), -1)
    slots, learn, targets = [], [], []
    for r, groups in enumerate(spread):
        start = 0
        for g, group in enumerate(groups):
            first = len(groups[0]) if g else 0
            for i, (token, learned) in enumerate(group):
                if token is None:
                    slots.append((r, start + i))
                if learned:
                    learn.append(r * length + start + i - 1)
                    targets.append(token)
            tokens[r, start : start + len(group)] = torch.tensor([t or 0 for t, _ in group])
            positions[r, start : start + len(group)] = torch.arange(first, first + len(group))
            group_of[r, start : start + len(group)] = g
            start += len(group)
    asks, seen = group_of[:, :, None], group_of[:, None, :]
    mask = torch.ones(length, length, dtype=torch.bool).tril() & ((asks == seen) | (seen == 0))
    return tokens, torch.tensor(slots).view(-1, 2), positions, mask[:, None], torch.tensor(learn), torch.tensor(targets)


def looks(rng: random.Random, size: int, patch: int):
    """A batch for the encoder alone: pixels and hints."""
    shown = [pictures.picture(rng) for _ in range(size)]
    return pixels(shown), *hints(shown, patch)


def batch(encoder, rng: random.Random, size: int, config):
    """A batch for the whole: pixels and hints of its pictures, and what `collate` makes of its rows."""
    rows = [encoder.row(rng) for _ in range(size)]
    shown = [picture for row in rows for picture in row.pictures]
    return pixels(shown), *hints(shown, config.patch), *collate(rows, config.image_tokens)
