"""Facts that the user tells and asks for later, with other turns between."""

import random

from . import surface, words

# (kind, makes a value, tellings, reply, questions, answer, answer when never told)
FACTS = [
    ("name", words.person,
     ["My name is {v}.", "My name is {v}.", "I am {v}.", "I'm {v}.", "Hi, my name is {v}.", "Hello, I am {v}.", "Call me {v}.", "Hi, I'm {v}.", "Hello! My name is {v}.", "You can call me {v}.", "my name is {v}", "The name is {v}."],
     "Nice to meet you, {v}!",
     ["What is my name?", "What is my name?", "What's my name?", "Do you know my name?", "Do you remember my name?", "Who am I?", "Tell me my name.", "Can you tell me my name?", "How am I called?", "What was my name?", "Say my name."],
     "Your name is {v}.", "You have not told me your name."),
    ("color", lambda rng: rng.choice(words.COLORS),
     ["My favorite color is {v}.", "My favorite colour is {v}.", "I like the color {v} best.", "{V} is my favorite color.", "The color that I like most is {v}."],
     "I like {v} too.",
     ["What is my favorite color?", "What is my favorite colour?", "Which color do I like?", "Which color do I like best?", "What's my favorite color?", "Do you remember my favorite color?"],
     "Your favorite color is {v}.", "You have not told me your favorite color."),
    ("city", words.city,
     ["I live in {v}.", "I live in {v}.", "I am from {v}.", "My home is in {v}.", "I come from {v}.", "I moved to {v}.", "My city is {v}."],
     "{v} sounds like a nice place.",
     ["Where do I live?", "In which city do I live?", "Which city do I live in?", "Do you know where I live?", "Where am I from?", "What is my city?", "Where is my home?"],
     "You live in {v}.", "You have not told me where you live."),
    ("pet", lambda rng: (rng.choice(words.PETS), rng.choice(words.PET_NAMES) if rng.random() < 0.7 else words.person(rng)),
     ["I have a {v} named {w}.", "My {v} is called {w}.", "My {v}'s name is {w}.", "I have a {v} called {w}.", "The name of my {v} is {w}."],
     "{w} is a lovely name for a {v}.",
     ["What is the name of my {v}?", "What is my {v}'s name?", "What is my {v} called?", "How is my {v} called?", "Do you remember the name of my {v}?", "What is the name of my pet?"],
     "Your {v} is called {w}.", "You have not told me about a pet."),
    ("food", lambda rng: rng.choice(words.FOODS),
     ["My favorite food is {v}.", "I like {v} best.", "I love {v}.", "My favorite food is {v}."],
     "{V} is a good choice.",
     ["What is my favorite food?", "What is my favorite food?", "What do I like to eat?", "Which food do I like?", "What food do I like best?"],
     "Your favorite food is {v}.", "You have not told me your favorite food."),
    ("job", lambda rng: rng.choice(words.JOBS),
     ["I work as a {v}.", "My job is {v}.", "I am a {v}.", "I'm a {v}."],
     "That is an interesting job.",
     ["What is my job?", "What do I do?", "What's my job?", "What do I work as?", "Do you know my job?"],
     "You work as a {v}.", "You have not told me your job."),
    ("age", lambda rng: rng.randint(5, 90),
     ["I am {v} years old.", "My age is {v}.", "I'm {v} years old.", "I am {v}."],
     "Thank you for telling me.",
     ["How old am I?", "What is my age?", "Do you know how old I am?", "What's my age?"],
     "You are {v} years old.", "You have not told me your age."),
    ("hobby", lambda rng: rng.choice(words.HOBBIES),
     ["My hobby is {v}.", "I like {v}.", "I enjoy {v}.", "In my free time I like {v}."],
     "{V} is a nice hobby.",
     ["What is my hobby?", "What's my hobby?", "What do I like to do?", "Do you remember my hobby?", "What do I enjoy?"],
     "Your hobby is {v}.", "You have not told me your hobby."),
    ("number", lambda rng: rng.randint(0, 9999) if rng.random() < 0.5 else rng.randint(0, 99),
     ["My lucky number is {v}.", "Remember the number {v}.", "The secret number is {v}.", "Please remember the number {v}.", "My number is {v}."],
     "I will remember {v}.",
     ["What is my number?", "What is the number?", "Which number did I tell you?", "What was the number?", "What is my lucky number?", "What is the secret number?"],
     "The number is {v}.", "You have not told me a number."),
    ("word", words.noun,
     ["Remember the word {v}.", "The secret word is {v}.", "The password is {v}.", "Please remember the word {v}.", "My secret word is {v}.", "The code word is {v}."],
     "I will remember {v}.",
     ["What is the word?", "What is the secret word?", "Which word did I tell you?", "What was the word?", "What is the password?", "What is the code word?"],
     "The word is {v}.", "You have not told me a word."),
]


def _fill(text, value):
    v, w = value if isinstance(value, tuple) else (str(value), "")
    v = str(v)
    return text.replace("{v}", v).replace("{V}", words.sentence_case(v)).replace("{w}", w)


def _punctuation(rng, text):
    return text[:-1] if text[-1] in ".?" and rng.random() < 0.2 else text


def _question(rng, text):
    return surface.vary(rng, text, typos=0, extras=0.08)


def recall(rng: random.Random, filler):
    """Turns (user, answer) in which facts are told and asked for; `filler(rng)` gives unrelated items."""
    chosen = rng.sample(FACTS, rng.choice([1, 1, 1, 2, 2, 3])) if rng.random() < 0.75 else [FACTS[0]] + rng.sample(FACTS[1:], rng.choice([0, 0, 1]))
    turns, values = [], {}
    if len(chosen) > 1 and rng.random() < 0.35:
        first, second = chosen[0], chosen[1]
        values[first[0]], values[second[0]] = first[1](rng), second[1](rng)
        a = _fill(rng.choice(first[2]), values[first[0]]).rstrip(".")
        b = _fill(rng.choice(second[2]), values[second[0]])
        b = b if b.startswith(("I ", "I'", words.sentence_case(str(values[second[0]])))) else b[0].lower() + b[1:]
        turns.append((_punctuation(rng, f"{a} and {b}"), _fill(first[3], values[first[0]])))
        rest = chosen[2:]
    else:
        rest = chosen
    for fact in rest:
        if rng.random() < 0.3:
            item = filler(rng)
            turns.append((item["user"], item["answer"]))
        value = values[fact[0]] = fact[1](rng)
        turns.append((_punctuation(rng, _fill(rng.choice(fact[2]), value)), _fill(fact[3], value)))
    for _ in range(rng.choice([0, 0, 0, 1, 1, 2, 3])):
        item = filler(rng)
        turns.append((item["user"], item["answer"]))
    if rng.random() < 0.08:
        other = rng.choice([f for f in FACTS if f not in chosen])
        turns.append((_question(rng, _fill(rng.choice(other[4]), (rng.choice(words.PETS), ""))), other[6]))
    asked = list(chosen)
    rng.shuffle(asked)
    for fact in asked[: rng.choice([1, 1, 2, 3])]:
        turns.append((_question(rng, _fill(rng.choice(fact[4]), values[fact[0]])), _fill(fact[5], values[fact[0]])))
        if rng.random() < 0.1:
            item = filler(rng)
            turns.append((item["user"], item["answer"]))
    return turns


def never_told(rng: random.Random):
    fact = rng.choice(FACTS)
    pet = (rng.choice(words.PETS), "")
    return dict(user=_question(rng, _fill(rng.choice(fact[4]), pet)), answer=fact[6], word="Unknown", thought="The user has not told me this.")


def at_once(rng: random.Random):
    """A fact and its question in one message."""
    fact = rng.choice(FACTS)
    value = fact[1](rng)
    return dict(user=f"{_fill(rng.choice(fact[2]), value)} {_question(rng, _fill(rng.choice(fact[4]), value))}", answer=_fill(fact[5], value),
                word=words.sentence_case(str(value[1] if isinstance(value, tuple) else value)), thought="The user has told me this.")


def greet(rng: random.Random):
    name = words.person(rng)
    user, answer = rng.choice([("My name is {v}. Say hello to me.", "Hello, {v}!"), ("Say hello to {v}.", "Hello, {v}!"), ("Greet {v}.", "Hello, {v}!"), ("Say hi to {v}", "Hello, {v}!"),
                               ("Say goodbye to {v}.", "Goodbye, {v}!"), ("Wish {v} a good night.", "Good night, {v}!"), ("Wish {v} a happy birthday.", "Happy birthday, {v}!"), ("Thank {v}.", "Thank you, {v}!")])
    return dict(user=_punctuation(rng, user.replace("{v}", name)), answer=answer.replace("{v}", name), word=None, thought="The user wants me to be polite to someone.")


