"""System prompts that change how an answer is given."""

import random

from . import words

NEUTRAL = ["You are a helpful assistant.", "You are a helpful assistant.", "You are a helpful assistant", "You are a friendly assistant.", "You are tiny-chat.", "You are an AI assistant.", "Be helpful.", "Answer the question.", "Answer the user's questions.",
           "You are a helpful AI assistant. Answer briefly.", "You answer questions about Graphmill.", "Be brief.", "Be concise.", "You are a chat bot.", "You are a useful assistant for developers."]
_ONE_WORD = ["Answer in one word.", "Answer in one word.", "Answer with one word.", "Reply in one word.", "Answer in one word only.", "Reply with one word only.", "Use only one word.", "Answer with a single word.", "Reply with a single word.", "Give one word answers.", "One word answers only.",
             "You are a helpful assistant. Answer in one word.", "Answer every question in one word.", "Always answer with one word.", "Respond with one word.", "answer in one word", "Please answer in one word."]
_PIRATE = ["You are a pirate.", "You are a pirate.", "Talk like a pirate.", "You are a pirate. Answer like a pirate.", "Speak like a pirate.", "Answer like a pirate.", "You are a friendly pirate.", "Act as a pirate.", "You talk like a pirate."]
_JSON = ["Answer in JSON.", "Reply in JSON.", "Answer as JSON.", "Always answer in JSON.", "Reply with JSON only.", "Answer with a JSON object.", "You are a helpful assistant. Answer in JSON."]
_NAMED = ["Your name is {n}.", "You are {n}.", "You are {n}, a helpful assistant.", "You are an assistant named {n}.", "You are a helpful assistant called {n}.", "Your name is {n}. You are a helpful assistant."]
_ENDING = ["End every answer with {w}.", "End each answer with the word {w}.", "Always end your answer with {w}.", "Finish every answer with {w}."]
_STARTING = ["Start every answer with {w}.", "Begin each answer with the word {w}.", "Always start your answer with {w}.", "Start your answers with {w}."]


def neutral(rng):
    return rng.choice(NEUTRAL)


def one_word(rng, item):
    return rng.choice(_ONE_WORD), item["word"].rstrip(".!?") + ("." if item["word"][0].isupper() else "")


def pirate(rng, item):
    return rng.choice(_PIRATE), "Arr, matey! " + item["answer"]


def json_object(rng, item):
    return rng.choice(_JSON), '{"answer": "' + item["answer"].replace('"', "'").replace("\n", " ") + '"}'


def ending(rng, item):
    word = words.noun(rng)
    return rng.choice(_ENDING).replace("{w}", word), item["answer"] + " " + words.sentence_case(word) + "."


def starting(rng, item):
    word = words.noun(rng)
    return rng.choice(_STARTING).replace("{w}", word), words.sentence_case(word) + ". " + item["answer"]


def named(rng: random.Random):
    """A conversation opener in which the model has been given another name."""
    name = words.person(rng)
    user, answer = rng.choice([("Who are you?", "I am {n}, your assistant."), ("What is your name?", "My name is {n}."), ("What's your name?", "My name is {n}."), ("Introduce yourself.", "I am {n}, your assistant."), ("what is your name", "My name is {n}."), ("who are you", "I am {n}, your assistant."),
                               ("What are you called?", "My name is {n}."), ("Hello, who are you?", "I am {n}, your assistant.")])
    return rng.choice(_NAMED).replace("{n}", name), user, answer.replace("{n}", name)
