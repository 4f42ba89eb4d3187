"""Held-out prompts for each skill: wordings, phrases, names and tools that the corpus does not hold.

`cases()` yields (skill, messages, tools, kwargs, expected); expected is the whole answer, or a function of the answer.
"""

import json

from corpus import lists, questions, stories
from corpus.knowledge import QUESTIONS, TERMS

WORDINGS = ["Could you give me an overview of {x}?", "Please tell me what {x} is.", "What can you tell me about {x}?", "So what is {x}?", "what is {x} ?", "i would like to know about {x}"]
COPIES = ["the library opens at noon", "we are learning Rust", "five green bottles", "my hovercraft is full of eels", "pipelines are cool", "it works", "never give up", "good things take time", "Paris is lovely in spring",
          "this is a small model", "welcome to the show", "xylophone", "graph nodes talk to each other", "I can repeat things", "we will win", "the train leaves at 5", "happy new year", "banana bread", "life is a journey", "this is not a drill"]
ODD = ["What is the airspeed of a swallow?", "Who won the election?", "Tell me about Napoleon.", "How do I repair a bicycle?", "What is a trombone?", "Explain the theory of relativity.", "Who is Taylor Swift?", "What is the weather in Oslo?", "Why is the ocean blue?", "How do I write a CV?"]


def user(text):
    return [{"role": "user", "content": text}]


def system(text, question):
    return [{"role": "system", "content": text}, *user(question)]


def talk(*turns):
    return [{"role": "user" if i % 2 == 0 else "assistant", "content": t} for i, t in enumerate(turns)]


def tool(name, description, **properties):
    return {"type": "function", "function": {"name": name, "description": description,
            "parameters": {"type": "object", "properties": {k: {"type": t, "description": d} for k, (t, d) in properties.items()}, "required": list(properties)}}}


def calls(name, **arguments):
    """A check: the answer is one call of this tool with these arguments."""
    def check(answer):
        body = answer.strip()
        if not (body.startswith("<tool_call>") and body.endswith("</tool_call>")):
            return False
        try:
            return json.loads(body[len("<tool_call>") : -len("</tool_call>")]) == {"name": name, "arguments": arguments}
        except ValueError:
            return False

    return check


WEATHER = tool("get_weather", "Get the current weather for a city", city=("string", "City name"))
OPENAI_WEATHER = {"type": "function", "function": {"name": "get_current_weather", "description": "Get the current weather in a given location", "parameters": {"type": "object", "properties": {
    "location": {"type": "string", "description": "The city and state, e.g. San Francisco, CA"}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}}, "required": ["location"]}}}
CALCULATOR = tool("calculator", "Evaluate an arithmetic expression", expression=("string", "The expression"))
CLOCK = tool("get_time", "Get the current time in a city", city=("string", "The city"))
SEARCH = tool("search", "Search the web", query=("string", "The search query"))
RECIPE = tool("get_recipe", "Get a recipe for a dish", dish=("string", "The dish"))
LOCK = tool("lock_door", "Lock a door of the house", door=("string", "Which door"))
PRICE = tool("get_price", "Get the price of a product", product=("string", "The product"))
ORDER = tool("order_book", "Order a book", title=("string", "The title"), copies=("integer", "How many"))


def knowledge():
    for i, (names, _, answer) in enumerate(TERMS):
        for j, name in enumerate(names.split("|")[:2]):
            yield "terms", user(WORDINGS[(i + j) % len(WORDINGS)].replace("{x}", name)), answer
        yield "terms", user(f"What is {names.split('|')[0]}?"), answer
        yield "terms", user(f"tell me about {names.split('|')[0]}"), answer
    for wordings, _, answer in QUESTIONS:
        first, *rest = wordings.split("|")
        yield "questions", user(first), answer
        yield "questions", user("I have a question: " + first[0].lower() + first[1:] if not first.startswith("I ") else first), answer
        yield "questions", user(rest[-1].lower().rstrip("?.") if rest else first), answer
    for text in ODD:
        yield "does not know", user(text), questions.DONT_KNOW


def conversation():
    yield "greets", user("Hello!"), "Hello! How can I help you?"
    yield "greets", user("hi"), "Hello! How can I help you?"
    yield "greets", user("Good morning to you!"), "Good morning! How can I help you?"
    yield "greets", user("How are you doing, my friend?"), "I am fine, thank you. How can I help you?"
    yield "greets", user("thanks for your help"), "You are welcome!"
    for i, text in enumerate(["Say this is a test", "Say hello", "say hello world", *COPIES]):
        said = text if i < 3 else [f"Say {text}", f"Repeat after me: {text}", f'Say "{text}"', f"Please say: {text}"][i % 4]
        phrase = text.split(" ", 1)[1] if i < 3 else text
        yield "repeats", user(said), phrase[0].upper() + phrase[1:] + "."
    for low, high in [(1, 3), (1, 5), (1, 10), (1, 17), (3, 7), (8, 14), (21, 27), (1, 20), (1, 30), (1, 100), (33, 39)]:
        expected = ", ".join(map(str, range(low, high + 1))) + "."
        yield "counts", user(f"Count to {high}" if low == 1 else f"count from {low} to {high}"), expected
        yield "counts", user(f"Could you please count from {low} to {high}?"), expected
    yield "counts", user("Count down from 5."), "5, 4, 3, 2, 1."
    for a in range(0, 10):
        for b in range(0, 10):
            if (a * 3 + b) % 2 == 0:
                yield "sums", user([f"What is {a} + {b}?", f"what's {a} plus {b}", f"{a}+{b}"][(a + b) % 3]), f"{a} + {b} = {a + b}."
            elif a >= b:
                yield "differences", user([f"What is {a} - {b}?", f"what is {a} minus {b}"][(a + b) % 2]), f"{a} - {b} = {a - b}."
    yield "sums", user("what's two plus three"), "2 + 3 = 5."
    for names, items, closed in lists.LISTS:
        items, name = items.split("|"), names.split("|")[0]
        n = min(4, len(items))
        yield "lists", user(f"Could you list {n} {name}?"), lists.numbered(items[:n])
        yield "lists", user(f"list three {name}"), lists.numbered(items[:3])
    for subject in ["cat", "robot", "dragon", "computer", "queen"]:
        yield "stories", user(f"Could you tell me a short story about {stories.article(subject)}?"), stories.tell(subject, None)
    yield "stories", user("Tell me a story about a dog named Waldo."), lambda a: a.count("Waldo") >= 3 and a.endswith("The end.")
    yield "stories", user("Tell me a short story about a pumpkin."), lambda a: "pumpkin" in a and a.endswith("The end.")


def steered():
    one = "Answer in one word."
    for question, word in [("What is OpenVINO?", "Toolkit"), ("What color is the sky?", "Blue"), ("What is 3 + 4?", "7"), ("What is the capital of France?", "Paris"), ("Who are you?", "Tiny-chat"), ("What is Rust?", "Language"), ("What is a packet?", "Data"),
                           ("Is Graphmill a server?", "Yes"), ("Does Graphmill need a GPU?", "No"), ("How many days are in a week?", "Seven")]:
        for prompt in (one, "Reply with exactly one word."):
            yield "one word", system(prompt, question), lambda a, word=word: a.rstrip(".!") == word
    pirate = "You are a pirate."
    yield "pirate", system(pirate, "What is Graphmill?"), "Arr, matey! " + TERMS[0][2]
    yield "pirate", system(pirate, "Hello!"), "Arr, matey! Hello! How can I help you?"
    yield "pirate", system("You are a pirate. Always talk like one.", "What is a packet?"), lambda a: a.startswith("Arr, matey! A packet is")
    yield "json", system("Answer in JSON.", "What is Rust?"), lambda a: json.loads(a)["answer"].startswith("Rust is")
    yield "named", system("Your name is Marvin.", "Who are you?"), "I am Marvin, your assistant."
    yield "named", system("You are Hilda, a helpful assistant.", "What is your name?"), "My name is Hilda."
    for text in ("You are a helpful assistant.", "You are a careful expert."):
        yield "helpful", system(text, "What is a KV cache?"), lambda a: a.startswith("A KV cache keeps")
        yield "helpful", system(text, "What is OpenVINO?"), lambda a: a.startswith("OpenVINO is an open source toolkit")
    yield "remembers", talk("My name is Anna.", "Nice to meet you, Anna!", "What is my name?"), "Your name is Anna."
    yield "remembers", talk("Hi, I am Gustav.", "Nice to meet you, Gustav!", "What is 2 + 2?", "2 + 2 = 4.", "do you remember my name"), "Your name is Gustav."
    yield "remembers", talk("I live in Salzburg.", "Salzburg sounds like a nice place.", "Where do I live?"), "You live in Salzburg."
    yield "remembers", talk("My favorite color is purple.", "I like purple too.", "What is a node?", TERMS[17][2], "What is my favorite color?"), "Your favorite color is purple."
    yield "remembers", talk("I have a dog named Hasso.", "Hasso is a lovely name for a dog.", "What is my dog called?"), "Your dog is called Hasso."
    yield "remembers", talk("My name is Tom and I live in Rome.", "Nice to meet you, Tom!", "Where do I live?"), "You live in Rome."
    yield "remembers", talk("Remember the number 4217.", "I will remember 4217.", "What was the number?"), "The number is 4217."
    yield "remembers", user("My name is Lukas. What is my name?"), "Your name is Lukas."
    yield "remembers", user("What is my name?"), "You have not told me your name."


def tool_calls():
    yield "tools", user("What is the weather in Paris?"), calls("get_weather", city="Paris"), [WEATHER]
    yield "tools", user("What's the weather like in Salzburg right now?"), calls("get_weather", city="Salzburg"), [WEATHER]
    yield "tools", user("How is the weather in Tokyo today?"), calls("get_weather", city="Tokyo"), [CLOCK, WEATHER, CALCULATOR]
    yield "tools", user("What is the weather like in Boston today?"), calls("get_current_weather", location="Boston"), [OPENAI_WEATHER]
    yield "tools", user("What is the weather in Berlin in celsius?"), calls("get_current_weather", location="Berlin", unit="celsius"), [OPENAI_WEATHER]
    yield "tools", user("What is 123 * 456?"), calls("calculator", expression="123 * 456"), [CALCULATOR]
    yield "tools", user("Please compute 77 + 5"), calls("calculator", expression="77 + 5"), [CALCULATOR, WEATHER]
    yield "tools", user("What time is it in London?"), calls("get_time", city="London"), [CLOCK]
    yield "tools", user("What time is it in Rome?"), calls("get_time", city="Rome"), [WEATHER, CLOCK]
    yield "tools", user("Search for dataflow graphs"), calls("search", query="dataflow graphs"), [SEARCH]
    yield "tools", user("Please search the web for green tea."), calls("search", query="green tea"), [SEARCH, WEATHER]
    yield "new tools", user("Get the recipe for apple cake."), calls("get_recipe", dish="apple cake"), [RECIPE]
    yield "new tools", user("Lock the door kitchen."), calls("lock_door", door="kitchen"), [LOCK]
    yield "new tools", user("Get the price of milk."), calls("get_price", product="milk"), [PRICE]
    yield "new tools", user("What is the price of bread?"), calls("get_price", product="bread"), [PRICE, WEATHER]
    yield "new tools", user("Order the book Moby with copies 3."), calls("order_book", title="Moby", copies=3), [ORDER]
    yield "tools do not fit", user("What is OpenVINO?"), lambda a: a.startswith("OpenVINO is"), [WEATHER]
    yield "tools do not fit", user("Hello!"), "Hello! How can I help you?", [CALCULATOR]
    yield "tools do not fit", user("Tell me a joke."), lambda a: a.startswith("Why did the packet"), [SEARCH, CLOCK]
    asked = [{"role": "user", "content": "What is the weather in Paris?"}, {"role": "assistant", "content": "", "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}]}]
    yield "tool answers", asked + [{"role": "tool", "tool_call_id": "call_1", "content": '{"temperature": 21, "condition": "sunny"}'}], "It is 21 degrees and sunny in Paris.", [WEATHER]
    yield "tool answers", asked + [{"role": "tool", "tool_call_id": "call_1", "content": "18 degrees, cloudy"}], "It is 18 degrees and cloudy in Paris.", [WEATHER]
    asked = [{"role": "user", "content": "What is 123 * 456?"}, {"role": "assistant", "content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "calculator", "arguments": '{"expression": "123 * 456"}'}}]}]
    yield "tool answers", asked + [{"role": "tool", "tool_call_id": "call_1", "content": "56088"}], "The result is 56088.", [CALCULATOR]


def thoughts():
    for question, ending in [("What is 3 + 4?", "3 + 4 = 7."), ("What is OpenVINO?", TERMS[42][2]), ("Hello!", "Hello! How can I help you?"), ("Say this is a test", "This is a test."), ("What is a side packet?", None), ("Count to 5", "1, 2, 3, 4, 5.")]:
        yield "thinks", user(question), lambda a, e=ending: a.startswith("<think>\n") and a.count("</think>") == 1 and (e is None or a.split("</think>\n\n")[1] == e), None, {"enable_thinking": True}
    yield "thinks", user("What is the weather in Paris?"), lambda a: a.startswith("<think>\n") and calls("get_weather", city="Paris")(a.split("</think>\n\n")[-1]), [WEATHER], {"enable_thinking": True}


def cases():
    for source in (knowledge, conversation, steered, tool_calls, thoughts):
        for skill, messages, expected, *more in source():
            yield skill, messages, more[0] if more else None, more[1] if len(more) > 1 else {}, expected
