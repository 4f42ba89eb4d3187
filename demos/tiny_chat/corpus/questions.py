"""Asks about the knowledge in many wordings, and about things that the model does not know."""

import random

from . import surface, words
from .knowledge import QUESTIONS, TERMS

SINGULAR = [
    "What is {x}?", "What is {x}?", "What is {x}?", "What's {x}?", "whats {x}", "Tell me about {x}.", "Tell me about {x}.", "Explain {x}.", "Explain what {x} is.",
    "Can you explain {x}?", "Could you explain what {x} is?", "Define {x}.", "Describe {x}.", "What does {x} mean?", "What do you know about {x}?",
    "Do you know what {x} is?", "I want to know what {x} is.", "Can you tell me what {x} is?", "Give me a short explanation of {x}.", "{X}?",
    "What exactly is {x}?", "Tell me what {x} is.", "Tell me something about {x}.", "What is meant by {x}?", "Explain {x} to me.", "Explain {x} in one sentence.",
    "What is the meaning of {x}?", "Please explain {x}.", "How would you explain {x}?", "I do not understand {x}.", "Explain {x} in simple words.",
    "In one sentence, what is {x}?", "What is {x} and why does it matter?", "Can you describe {x}?", "Help me understand {x}.", "What is {x} good for?", "What does {x} do?",
    "Hi, what is {x}?", "Hello! Tell me about {x}.", "Write a short text about {x}.", "Summarize {x}.", "Give me a definition of {x}.", "What is {x} in Graphmill?",
]
PLURAL = ["What are {x}?", "What are {x}?", "Tell me about {x}.", "Explain {x}.", "Explain what {x} are.", "What do you know about {x}?", "What are {x} good for?", "{X}?", "Describe {x}.",
          "How do {x} work?", "Can you explain {x}?", "What are {x} in a graph?"]
BARE = ["What is {x}?", "Define {x}.", "{X}?", "Explain {x}.", "What does {x} mean?", "Tell me about {x}.", "explain the term {x}", "the term {x}, what does it mean?"]
UNKNOWN_TOPICS = """the stock market|quantum physics|the french revolution|my neighbor|the weather on mars|the history of rome|cooking a steak|the price of gold|football results|
the president|a blue whale|dark matter|the moon landing|taxes|the bible|shakespeare|mozart|a volcano|photosynthesis|the best restaurant|my future|the news|bitcoin|a black hole|
the ice age|dinosaurs|chemistry|a nuclear reactor|the roman empire|a sonnet|knitting patterns|car repair|gardening in winter|the olympic games|medieval castles|tax law|
my homework|an earthquake|cricket rules|surgery|beethoven|vampires|the great wall|electricity|gravity|the human heart|vaccines|chess openings|the world cup|love|
a kangaroo|a helicopter|wine|a violin|the internet|soap|glass|a battery|a submarine|yoga|the pyramids|opera|whales|a tractor|economics|philosophy|inflation""".replace("\n", "").split("|")
UNKNOWN_QUESTIONS = """Who won the match yesterday?|What will the weather be tomorrow?|Who is the president of the United States?|What is the best phone?|How do I cook a steak?|
How tall is the Eiffel Tower?|Who wrote Hamlet?|When did the war end?|How far away is the moon?|What should I eat tonight?|Who painted the Mona Lisa?|How do I fix my car?|
What time is it?|What day is it today?|How much does a house cost?|What is the weather like?|What is the weather like today?|Who is your favorite singer?|How deep is the sea?|How do airplanes fly?|
Why do people dream?|Where can I buy shoes?|Which stock should I buy?|How do I lose weight?|Who discovered America?|How fast is light?|What is the population of India?|
Can you book a flight?|What happened in 1789?|Who is the richest man?|What is the date today?|How is the weather in Paris?|What is the weather in Berlin?|Translate this into Latin.|
What did I eat yesterday?|How many people live in China?|How do I become rich?|Who invented the telephone?|How do I bake bread?|Why is the sea salty?""".replace("\n", "").split("|")
DONT_KNOW = "Sorry, I do not know that. I am a very small model: ask me about Graphmill, dataflow graphs or model serving."
DONT_KNOW_WORD = "Unknown"


def _ask(rng, names):
    name = rng.choice(names.split("|")) if rng.random() < 0.45 else names.split("|")[0]
    article, _, rest = name.partition(" ")
    if article in ("a", "an") and rng.random() < 0.4:
        if rng.random() < 0.6:
            plural = rest + ("es" if rest.endswith(("ch", "x")) else "s")
            if rest.endswith("y"):
                plural = rest[:-1] + "ies"
            text = rng.choice(PLURAL).replace("{x}", plural).replace("{X}", words.sentence_case(plural))
        else:
            text = rng.choice(BARE).replace("{x}", rest).replace("{X}", words.sentence_case(rest))
    else:
        text = rng.choice(SINGULAR).replace("{x}", name).replace("{X}", words.sentence_case(name))
    return text


def term(rng: random.Random):
    names, word, answer = rng.choice(TERMS)
    return dict(user=surface.vary(rng, _ask(rng, names)), answer=answer, word=word,
                thought=f"The user asks about {names.split('|')[0]}. I know this.")


def question(rng: random.Random):
    wordings, word, answer = rng.choice(QUESTIONS)
    options = wordings.split("|")
    return dict(user=surface.vary(rng, options[0] if rng.random() < 0.3 else rng.choice(options)), answer=answer, word=word,
                thought="The user asks a question. I know the answer.")


def unknown(rng: random.Random):
    roll = rng.random()
    if roll < 0.45:
        text = rng.choice(SINGULAR[:36]).replace("{x}", (topic := rng.choice(UNKNOWN_TOPICS))).replace("{X}", words.sentence_case(topic))
    elif roll < 0.6:
        topic = words.made_up(rng, 2, 3)
        topic = rng.choice([topic, topic.capitalize(), "a " + topic, "the " + topic])
        text = rng.choice(SINGULAR[:36]).replace("{x}", topic).replace("{X}", words.sentence_case(topic))
    else:
        text = rng.choice(UNKNOWN_QUESTIONS)
    return dict(user=surface.vary(rng, text), answer=DONT_KNOW, word=DONT_KNOW_WORD, thought="The user asks about something that I do not know.")
