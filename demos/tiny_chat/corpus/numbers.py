"""Counting and one-digit arithmetic."""

import random

from . import surface
from .words import number_word, sentence_case

TOO_HARD = "That is too hard for me. I can only calculate with small numbers."


def _say(rng, n):
    return number_word(n) if n <= 20 and rng.random() < 0.3 else str(n)


def count(rng: random.Random):
    roll = rng.random()
    if roll < 0.5:
        low, high = 1, rng.choice([3, 4, 5, 5, 6, 7, 8, 9, 10, 10, 10, 12, 15, 20, 20, 25, 30, 40, 50]) if rng.random() < 0.93 else 100
        text = rng.choice(["Count to {b}.", "Count to {b}.", "Count from 1 to {b}.", "Can you count to {b}?", "Please count to {b}.", "Count up to {b}.", "Count from one to {b}.",
                           "List the numbers from 1 to {b}.", "Write the numbers from 1 to {b}.", "Say the numbers 1 to {b}.", "Counting to {b}, please."])
    elif roll < 0.85:
        low = rng.randint(0, 30) if rng.random() < 0.5 else rng.randint(0, 9)
        high = low + rng.randint(2, 10)
        text = rng.choice(["Count from {a} to {b}.", "Count from {a} to {b}.", "Count from {a} up to {b}.", "Can you count from {a} to {b}?", "List the numbers from {a} to {b}.", "Write the numbers {a} to {b}.",
                           "Start at {a} and count to {b}.", "Please count from {a} to {b}."])
    else:
        low, high = rng.choice([3, 5, 5, 10, 10, 8, 6, 7, 9, 4]), rng.choice([1, 0])
        text = rng.choice(["Count down from {a} to {b}.", "Count backwards from {a} to {b}.", "Count from {a} down to {b}."])
        if high == 1 and rng.random() < 0.5:
            text = rng.choice(["Count down from {a}.", "Count backwards from {a}.", "Start a countdown from {a}."])
    numbers = range(low, high + 1) if low <= high else range(low, high - 1, -1)
    user = surface.vary(rng, text.replace("{a}", _say(rng, low)).replace("{b}", _say(rng, high)), typos=0.02)
    return dict(user=user, answer=", ".join(map(str, numbers)) + ".", word=None, thought=f"The user wants me to count from {low} to {high}.")


_OPERATIONS = {
    "+": (["{a} + {b}", "{a} + {b}", "{a} plus {b}", "{a}+{b}", "the sum of {a} and {b}"], lambda a, b: a + b, "plus"),
    "-": (["{a} - {b}", "{a} - {b}", "{a} minus {b}", "{a}-{b}"], lambda a, b: a - b, "minus"),
    "*": (["{a} * {b}", "{a} times {b}", "{a} x {b}"], lambda a, b: a * b, "times"),
}
_ASK = ["What is {e}?", "What is {e}?", "What's {e}?", "whats {e}", "How much is {e}?", "{E}?", "{E} = ?", "Calculate {e}.", "Compute {e}.", "{e} =", "Can you tell me what {e} is?", "Tell me {e}.", "Please calculate {e}.",
        "What is the result of {e}?", "Solve {e}.", "{e}"]


def one_digit(rng):
    """(a, sign, b, result); differences are seldom negative."""
    sign = rng.choice("+++--*")
    a, b = rng.randint(0, 10), rng.randint(0, 10)
    if sign == "-" and a < b and rng.random() < 0.85:
        a, b = b, a
    return a, sign, b, _OPERATIONS[sign][1](a, b)


def arithmetic(rng: random.Random):
    if rng.random() < 0.07:
        a, b = rng.randint(30, 9999), rng.randint(11, 9999)
        sign = rng.choice("+-*/")
        user = surface.vary(rng, rng.choice(_ASK).replace("{e}", f"{a} {sign} {b}").replace("{E}", f"{a} {sign} {b}"), typos=0.02)
        return dict(user=user, answer=TOO_HARD, word="Unknown", thought="These numbers are too large for me.")
    a, sign, b, result = one_digit(rng)
    forms, _, spoken = _OPERATIONS[sign]
    if rng.random() < 0.3:
        expression = rng.choice(forms[1:3]).replace("{a}", number_word(a)).replace("{b}", number_word(b))
    else:
        expression = rng.choice(forms).replace("{a}", str(a)).replace("{b}", str(b))
    user = surface.vary(rng, rng.choice(_ASK).replace("{e}", expression).replace("{E}", sentence_case(expression)), typos=0.02)
    return dict(user=user, answer=f"{a} {sign} {b} = {result}.", word=str(result), thought=f"The user wants to know {a} {spoken} {b}. {a} {spoken} {b} is {result}.")


def compare(rng: random.Random):
    a, b = rng.sample(range(0, 21), 2)
    larger = rng.random() < 0.5
    result = max(a, b) if larger else min(a, b)
    adjective = rng.choice(["larger", "bigger", "greater"] if larger else ["smaller", "less"])
    user = rng.choice(["Which number is {k}, {a} or {b}?", "Which is {k}: {a} or {b}?", "What is {k}, {a} or {b}?"]).replace("{k}", adjective).replace("{a}", str(a)).replace("{b}", str(b))
    return dict(user=surface.vary(rng, user, typos=0.02), answer=f"{result} is {'larger' if larger else 'smaller'}.", word=str(result), thought=f"The user compares {a} and {b}.")


def next_number(rng: random.Random):
    n = rng.randint(0, 40)
    after = rng.random() < 0.6
    result = n + 1 if after else n - 1
    user = rng.choice(["What comes after {n}?", "Which number comes after {n}?", "What is the next number after {n}?"] if after else ["What comes before {n}?", "Which number comes before {n}?"])
    return dict(user=surface.vary(rng, user.replace("{n}", str(n)), typos=0.02), answer=f"{result} comes {'after' if after else 'before'} {n}.", word=str(result), thought=f"The user asks for the number {'after' if after else 'before'} {n}.")
