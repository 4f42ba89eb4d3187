"""The training text: groups of texts that mean the same, drawn from templates by a seeded generator.

Subjects and facts are those of the chat model (`../tiny_chat/corpus`), so that what one finds the other can talk about.
"""

import pathlib
import random
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tiny_chat"))

from corpus import lists, plain, questions, smalltalk, stories, surface, words  # noqa: E402
from corpus.knowledge import QUESTIONS, TERMS  # noqa: E402

SYNONYMS = [row.split("|") for row in """big|large|huge|great
small|little|tiny
fast|quick|rapid
happy|glad|joyful
sad|unhappy
car|automobile
house|home|building
boat|ship
start|begin
end|finish|stop
speak|talk|say
look|see|watch
child|kid
doctor|physician
error|failure|fault|mistake
answer|reply|response
question|request|query
file|document
picture|image|photo
fix|repair
make|build|create
job|work
street|road
movie|film
rain|wet weather
money|cash
cat|kitten
dog|puppy
food|meal
ill|sick
smart|clever
shut|close
gift|present
forest|woods
stone|rock
sea|ocean
teacher|instructor
student|pupil
computer|machine
memory|storage
server|host
model|network
""".strip().splitlines()]
SYNONYM_OF = {word: row for row in SYNONYMS for word in row}
SMALL_WORDS = "the a an of in on at to for with and is are was this that it my your very also".split()
VERBS = "sees eats finds opens paints sells likes watches carries follows builds repairs buys draws cleans needs uses reads holds visits".split()


def _content(rng: random.Random) -> str:
    roll = rng.random()
    if roll < 0.55:
        return rng.choice(words.COMMON)
    if roll < 0.7:
        return rng.choice(list(SYNONYM_OF))
    if roll < 0.8:
        return rng.choice(words.NAMES + words.CITIES)
    if roll < 0.9:
        return rng.choice(words.JOBS + words.HOBBIES + words.FOODS + words.PETS)
    return words.made_up(rng)


def sentence(rng: random.Random) -> list[str]:
    """Words in the order of a plain sentence."""
    subject = ["the", _content(rng), _content(rng)] if rng.random() < 0.4 else ["the", _content(rng)]
    rest = [rng.choice(VERBS), rng.choice(["a", "the"]), _content(rng)]
    place = [rng.choice(["in", "on", "near", "under", "with"]), "the", _content(rng)] if rng.random() < 0.6 else []
    return subject + rest + place


def reword(rng: random.Random, sentence: list[str]) -> list[str]:
    """The same content: small words come and go, some words become synonyms, parts move."""
    out = []
    for word in sentence:
        if word in SMALL_WORDS and rng.random() < 0.35:
            continue
        if rng.random() < 0.08:
            out.append(rng.choice(SMALL_WORDS))
        row = SYNONYM_OF.get(word)
        out.append(rng.choice(row) if row and rng.random() < 0.6 else word)
    content = [i for i, word in enumerate(out) if word not in SMALL_WORDS]
    if len(content) > 3 and rng.random() < 0.3:
        del out[rng.choice(content)]
    if rng.random() < 0.3:
        cut = rng.randrange(1, len(out)) if len(out) > 1 else 0
        out = out[cut:] + out[:cut]
    return out


def _spoken(rng, parts):
    return surface.vary(rng, " ".join(parts).capitalize() + ".", extras=0)


def _term(rng):
    names, _, answer = rng.choice(TERMS)
    asked = surface.vary(rng, questions._ask(rng, names))
    roll = rng.random()
    if roll < 0.55:
        return asked, answer, names
    if roll < 0.75:
        return asked, surface.vary(rng, questions._ask(rng, names)), names
    if roll < 0.9:
        return asked, rng.choice(answer.split(". ")), names
    first, *rest = answer.split(". ")
    return first, rest[0] if rest else asked, names


def _question(rng):
    wordings, _, answer = rng.choice(QUESTIONS)
    options = wordings.split("|")
    return surface.vary(rng, rng.choice(options)), answer if rng.random() < 0.6 else rng.choice(options), wordings


def _talk(rng):
    wordings, _, answer = rng.choice(smalltalk.TALK)
    options = wordings.split("|")
    return rng.choice(options), rng.choice(options), wordings


def _story(rng):
    subject = rng.choice(stories.SUBJECTS)
    told = stories.tell(subject, None).split(". ")
    return f"Tell me a story about {stories.article(subject)}.", ". ".join(told[: rng.randint(1, 3)]), "story " + subject


def _list(rng):
    names, items, _ = rng.choice(lists.LISTS)
    chosen = items.split("|")
    rng.shuffle(chosen)
    name = rng.choice(names.split("|"))
    return rng.choice([f"List some {name}.", f"Name three {name}.", f"Which {name} are there?"]), ", ".join(chosen[:4]), names


def _unknown(rng):
    topic = rng.choice(questions.UNKNOWN_TOPICS)
    ask = lambda: surface.vary(rng, rng.choice(questions.SINGULAR[:36]).replace("{x}", topic).replace("{X}", words.sentence_case(topic)))
    return ask(), ask(), topic


def _plain(rng):
    made = sentence(rng)
    return _spoken(rng, made), _spoken(rng, reword(rng, made)), " ".join(made)


KINDS = [(_term, 34), (_question, 12), (_talk, 5), (_story, 5), (_list, 6), (_unknown, 8), (_plain, 30)]


def pair(rng: random.Random):
    """(text, text of the same meaning, key): pairs with the same key mean the same."""
    makers, weights = zip(*KINDS)
    return rng.choices(makers, weights)[0](rng)


def lines(samples: int, seed: int):
    """Text for the tokenizer."""
    rng = random.Random(seed)
    for _ in range(samples):
        first, second, _ = pair(rng)
        yield first
        yield second
        if rng.random() < 0.1:
            yield plain.text(rng)
    for _ in range(20):
        yield " ".join(words.COMMON + words.NAMES + words.CITIES + words.JOBS + words.HOBBIES + words.FOODS + list(SYNONYM_OF))
