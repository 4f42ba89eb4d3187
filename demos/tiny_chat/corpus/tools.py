"""Tools: a schema is offered, the model calls it with arguments taken from the request, and words the tool's answer."""

import json
import random

from . import words

ZONES = {"Berlin": "Europe/Berlin", "Paris": "Europe/Paris", "London": "Europe/London", "Madrid": "Europe/Madrid", "Rome": "Europe/Rome", "Vienna": "Europe/Vienna", "Tokyo": "Asia/Tokyo", "Seoul": "Asia/Seoul",
         "Shanghai": "Asia/Shanghai", "Singapore": "Asia/Singapore", "Dubai": "Asia/Dubai", "Sydney": "Australia/Sydney", "New York": "America/New_York", "Chicago": "America/Chicago"}
CONDITIONS = ["sunny", "cloudy", "rainy", "windy", "foggy", "clear", "snowy", "stormy", "warm and dry", "light rain", "partly cloudy"]


def schema(rng, name, description, properties, required=None):
    """An OpenAI tool definition; `properties` maps a name to (type, description or None, enum or None)."""
    fields = {}
    for key, (kind, about, enum) in properties.items():
        field = {"type": kind}
        if about and rng.random() < 0.5:
            field["description"] = about
        if enum:
            field["enum"] = enum
        fields[key] = field
    parts = [("type", "object"), ("properties", fields)]
    if rng.random() < 0.8:
        parts.append(("required", list(required if required is not None else properties)))
    if rng.random() < 0.08:
        parts.append(("additionalProperties", False))
    if rng.random() < 0.25:
        parts.sort()
    function = {"name": name, "description": description, "parameters": dict(parts)}
    if rng.random() < 0.06:
        del function["description"]
    return {"type": "function", "function": function}


def _punctuate(rng, text):
    if text[-1] in ".?" and rng.random() < 0.25:
        text = text[:-1]
    if rng.random() < 0.12:
        text = rng.choice(["Please: ", "Hi, ", "Hello! ", "Hey, "]) + text
    return text[0].lower() + text[1:] if rng.random() < 0.15 and not text.startswith("I ") else text


def weather(rng):
    name = rng.choice(["get_weather", "get_weather", "get_weather", "get_current_weather", "get_current_weather", "weather", "current_weather", "weather_lookup", "fetch_weather", "get_forecast"])
    key = rng.choice(["city", "city", "city", "location", "location", "location", "place", "town"])
    place = words.city(rng)
    about = rng.choice(["The name of the city", "The city", "Name of the place", "The city and state, e.g. San Francisco, CA", "City name, for example Paris", "The city to look up", "City and country e.g. Bogota, Colombia"])
    properties, required, arguments, suffix = {key: ("string", about, None)}, [key], {key: place}, ""
    if rng.random() < 0.3:
        unit = rng.choice(["celsius", "fahrenheit"])
        properties["unit"] = ("string", "The unit of the temperature", ["celsius", "fahrenheit"])
        if rng.random() < 0.4:
            suffix, arguments["unit"] = f" in {unit}", unit
    text = rng.choice(["What is the weather in {c}{s}?", "What is the weather in {c}{s}?", "What's the weather in {c}{s}?", "What's the weather like in {c}{s}?", "What is the weather like in {c}{s}?", "How is the weather in {c}{s}?", "Weather in {c}{s}",
                       "Tell me the weather in {c}{s}.", "Get the weather for {c}{s}.", "What is the weather in {c} today{s}?", "How warm is it in {c}{s}?", "What is the temperature in {c}{s}?", "What is the current weather in {c}{s}?", "What's the temperature in {c}{s}?",
                       "How is the weather today in {c}{s}?", "Can you check the weather in {c}{s}?", "I want to know the weather in {c}{s}.", "Show me the weather for {c}{s}.", "What will the weather be in {c}{s}?"])
    if not suffix and rng.random() < 0.15:
        text = rng.choice(["Is it raining in {c}?", "Is it cold in {c}?", "Is it sunny in {c}?", "Do I need an umbrella in {c}?"])
    degrees, condition = rng.randint(-9, 39), rng.choice(CONDITIONS)
    plain = rng.random()
    if plain < 0.35:
        result, said = f"{degrees} degrees, {condition}", f"It is {degrees} degrees and {condition} in {place}."
    elif plain < 0.5:
        result, said = rng.choice([f"{condition}, {degrees} degrees", f"{condition}, {degrees}°C", f"{degrees}°C and {condition}"]), f"It is {degrees} degrees and {condition} in {place}."
    else:
        body = [(rng.choice(["temperature", "temperature", "temp", "degrees"]), degrees if rng.random() < 0.7 else str(degrees)), (rng.choice(["condition", "conditions", "weather", "description"]), condition)]
        if rng.random() < 0.3:
            body.insert(0, (key, place))
        if rng.random() < 0.3:
            body.append(("unit", arguments.get("unit", "celsius")))
        if rng.random() < 0.2:
            body.reverse()
        result, said = json.dumps(dict(body), ensure_ascii=False), f"It is {degrees} degrees and {condition} in {place}."
    tool = schema(rng, name, rng.choice(["Get the weather of a city", "Get the current weather in a given location", "Get the weather for a city.", "Returns the weather", "Get current weather", "Get current temperature for a given location.", "Look up the current weather."]), properties, required)
    return tool, text.replace("{c}", place).replace("{s}", suffix), arguments, result, said


def calculator(rng):
    name = rng.choice(["calculator", "calculator", "calculate", "calculate", "compute", "evaluate", "math"])
    key = rng.choice(["expression", "expression", "expression", "expr", "formula"])
    parts = [str(rng.randrange(10 ** rng.randint(1, 4))) for _ in range(rng.choice([2, 2, 2, 3]))]
    signs = [rng.choice("+-*/") for _ in parts[1:]]
    expression = parts[0] + "".join(f" {s} {p}" for s, p in zip(signs, parts[1:]))
    spoken = expression
    if rng.random() < 0.3:
        for sign, word in ("+", "plus"), ("-", "minus"), ("*", "times"), ("/", "divided by"):
            spoken = spoken.replace(f" {sign} ", f" {word} ")
    text = rng.choice(["What is {e}?", "What is {e}?", "Calculate {e}.", "Compute {e}.", "How much is {e}?", "Please calculate {e}.", "Can you calculate {e}?", "What's {e}?", "{e}", "Use the calculator: {e}", "Solve {e}."])
    value = rng.choice([str(rng.randrange(10 ** rng.randint(1, 6))), f"{rng.randrange(1000)}.{rng.randrange(100)}", str(-rng.randrange(1000))])
    result = value if rng.random() < 0.6 else json.dumps({rng.choice(["result", "value", "answer"]): value if rng.random() < 0.4 else json.loads(value)})
    value = str(json.loads(result)[next(iter(json.loads(result)))]) if result.startswith("{") else value
    tool = schema(rng, name, rng.choice(["Evaluate a mathematical expression", "Calculate the value of an expression.", "A calculator", "Does arithmetic", "Evaluates an arithmetic expression"]), {key: ("string", "The expression to evaluate", None)})
    return tool, text.replace("{e}", spoken), {key: expression}, result, f"The result is {value}."


def adder(rng):
    verb, sign = rng.choice([("add", "+"), ("multiply", "*"), ("subtract", "-"), ("divide", "/")])
    keys = rng.choice([("a", "b"), ("a", "b"), ("x", "y"), ("first", "second")])
    a, b = rng.randrange(10 ** rng.randint(1, 4)), rng.randrange(10 ** rng.randint(1, 4))
    word = {"+": "plus", "*": "times", "-": "minus", "/": "divided by"}[sign]
    text = rng.choice(["What is {a} {s} {b}?", "What is {a} {w} {b}?", "Calculate {a} {s} {b}.", "How much is {a} {w} {b}?"]).replace("{a}", str(a)).replace("{b}", str(b)).replace("{s}", sign).replace("{w}", word)
    if verb in ("add", "multiply") and rng.random() < 0.4:
        text = f"{verb.capitalize()} {a} {'and' if verb == 'add' else 'by'} {b}."
    kind = rng.choice(["number", "integer"])
    value = rng.randrange(10 ** rng.randint(1, 5))
    tool = schema(rng, rng.choice([verb, verb + "_numbers"]), f"{verb.capitalize()} two numbers", {keys[0]: (kind, "The first number", None), keys[1]: (kind, "The second number", None)})
    return tool, text, {keys[0]: a, keys[1]: b}, str(value), f"The result is {value}."


def clock(rng):
    key = rng.choice(["city", "city", "timezone", "location", "place"])
    place = rng.choice(list(ZONES)) if key == "timezone" else words.city(rng)
    text = rng.choice(["What time is it in {c}?", "What time is it in {c}?", "What is the time in {c}?", "Tell me the time in {c}.", "What's the time in {c}?", "Current time in {c}?", "How late is it in {c}?", "What time is it now in {c}?"])
    value = f"{rng.randrange(24):02}:{rng.randrange(60):02}"
    result = value if rng.random() < 0.6 else json.dumps({rng.choice(["time", "time", "current_time"]): value})
    tool = schema(rng, rng.choice(["get_time", "get_time", "get_current_time", "current_time", "clock", "time"]), rng.choice(["Get the current time in a city", "Get the time", "Returns the local time.", "Tells the time in a place"]),
                  {key: ("string", rng.choice(["The city", "Name of the place", "The time zone, such as Europe/Berlin"]) if key == "timezone" else "The city", None)})
    return tool, text.replace("{c}", place), {key: ZONES[place] if key == "timezone" else place}, result, f"It is {value} in {place}."


def here(rng):
    """Tools without arguments."""
    name, about, text, said, value = rng.choice([
        ("get_time", "Get the current time", "What time is it?", "It is {v}.", f"{rng.randrange(24):02}:{rng.randrange(60):02}"),
        ("get_date", "Get the current date", "What is the date today?", "It is {v}.", f"20{rng.randint(20, 39)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"),
        ("get_status", "Get the status of the server", "What is the status of the server?", "The status is {v}.", rng.choice(["ready", "busy", "idle", "ok"])),
        ("roll_dice", "Roll a dice", "Roll a dice.", "The result is {v}.", str(rng.randint(1, 6))),
        ("get_location", "Get the location of the user", "Where am I?", "You are in {v}.", words.city(rng))])
    tool = {"type": "function", "function": {"name": name, "description": about}}
    if rng.random() < 0.6:
        tool["function"]["parameters"] = {"type": "object", "properties": {}}
    return tool, text, {}, value, said.replace("{v}", value)


def search(rng):
    key = rng.choice(["query", "query", "query", "q", "text", "question"])
    topic = " ".join(words.noun(rng) for _ in range(rng.randint(1, 4)))
    if rng.random() < 0.3:
        topic = rng.choice([words.person(rng), words.city(rng), "the history of " + words.city(rng), "news about " + words.noun(rng), "Rust books", "dataflow graphs", "language models"])
    text = rng.choice(["Search for {q}.", "Search for {q}.", "Search the web for {q}.", "Look up {q}.", "Find information about {q}.", "Google {q}.", "Can you search for {q}?", "Please search for {q}.", "Find {q} on the web.", "Do a search for {q}."])
    found = words.sentence_case(" ".join(words.noun(rng) for _ in range(rng.randint(3, 8)))) + "."
    tool = schema(rng, rng.choice(["search", "search", "web_search", "search_web", "find", "lookup"]), rng.choice(["Search the web", "Search the internet for a query", "Finds information.", "Looks up information on the web."]), {key: ("string", "What to search for", None)})
    return tool, text.replace("{q}", topic), {key: topic}, found, f"I found this: {found}"


# (names, description, {parameter: (type, description, maker)}, requests, answer)
_minutes = lambda rng: rng.randint(1, 90)
_text = lambda rng: " ".join(words.noun(rng) for _ in range(rng.randint(1, 4)))
ACTIONS = [
    ("send_email|send_mail", "Send an email to a person", {"to|recipient|name": ("string", "The recipient", words.person), "subject|text|message|body": ("string", "The text", _text)}, ["Send an email to {0} with the text {1}.", "Send {0} an email: {1}.", "Write an email to {0} that says {1}."]),
    ("send_message|message", "Send a message to a person", {"name|to|person": ("string", "The person", words.person), "text|message": ("string", "The message", _text)}, ["Send a message to {0}: {1}.", "Tell {0}: {1}.", "Send {0} the message {1}."]),
    ("set_timer|start_timer", "Set a timer", {"minutes|duration": ("integer", "Minutes", _minutes)}, ["Set a timer for {0} minutes.", "Start a timer for {0} minutes.", "Timer for {0} minutes, please."]),
    ("set_alarm", "Set an alarm", {"time": ("string", "The time", lambda rng: f"{rng.randrange(24)}:{rng.randrange(60):02}")}, ["Set an alarm for {0}.", "Wake me at {0}.", "Set the alarm to {0}."]),
    ("play_music|play_song", "Play a song", {"song|title": ("string", "The title", _text)}, ["Play the song {0}.", "Play {0}.", "I want to hear the song {0}."]),
    ("translate|translate_text", "Translate a text into a language", {"text": ("string", "The text", _text), "language|target": ("string", "The language", lambda rng: rng.choice("German French Spanish Italian Polish Japanese Chinese English".split()))}, ["Translate {0} into {1}.", "Translate {0} to {1}.", "How do you say {0} in {1}?"]),
    ("turn_on_light|turn_on|switch_on", "Turn on the light in a room", {"room": ("string", "The room", lambda rng: rng.choice(["kitchen", "bedroom", "bathroom", "hall", "garage", "office", "cellar"]))}, ["Turn on the light in the {0}.", "Switch on the {0} light.", "Light in the {0}, please."]),
    ("create_note|add_note|save_note", "Save a note", {"text|note|content": ("string", "The note", _text)}, ["Make a note: {0}.", "Note that {0}.", "Save the note {0}.", "Write a note: {0}."]),
    ("open_file|read_file", "Open a file", {"path|file|name": ("string", "The file", lambda rng: words.noun(rng) + rng.choice([".txt", ".json", ".md", ".py", ".rs", ".pbtxt"]))}, ["Open the file {0}.", "Read {0}.", "Show me the file {0}.", "What is in the file {0}?"]),
    ("book_flight|find_flight|search_flights", "Find a flight between two cities", {"from|origin": ("string", "Start", words.city), "to|destination": ("string", "Goal", words.city)}, ["Book a flight from {0} to {1}.", "Find a flight from {0} to {1}.", "I want to fly from {0} to {1}."]),
    ("get_stock_price|stock_price", "Get the price of a stock", {"symbol|ticker": ("string", "The symbol", lambda rng: "".join(rng.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(rng.randint(3, 4))))}, ["What is the price of {0}?", "Get the stock price of {0}.", "How much is {0} stock?"]),
    ("add_to_list|add_item|buy", "Add an item to the shopping list", {"item": ("string", "The item", words.noun)}, ["Add {0} to the shopping list.", "Put {0} on my list.", "I need to buy {0}."]),
    ("get_user|find_user|lookup_user", "Get the data of a user", {"id|user_id": ("integer", "The number of the user", lambda rng: rng.randrange(10 ** rng.randint(1, 5)))}, ["Get the user {0}.", "Find user {0}.", "Show me user number {0}."]),
    ("define_word|dictionary", "Look up a word in the dictionary", {"word|term": ("string", "The word", words.noun)}, ["Look up the word {0}.", "What does the word {0} mean?", "Define the word {0}."]),
    ("call_person|phone|make_call", "Call a person", {"name|person|contact": ("string", "The person", words.person)}, ["Call {0}.", "Phone {0}.", "Please call {0}."]),
    ("get_population|population", "Get the population of a city", {"city|place": ("string", "The city", words.city)}, ["How many people live in {0}?", "What is the population of {0}?"]),
]


def _request(rng, names, about, parameters, requests):
    keys = [rng.choice(key.split("|")) for key in parameters]
    specs = list(parameters.values())
    values = [maker(rng) for _, _, maker in specs]
    order = list(range(len(keys)))
    tool = schema(rng, rng.choice(names.split("|")), about, {keys[i]: (specs[i][0], specs[i][1], None) for i in order})
    text = rng.choice(requests)
    for i, value in enumerate(values):
        text = text.replace("{%d}" % i, f'"{value}"' if specs[i][2] is _text and rng.random() < 0.3 else str(value))
    status = rng.choice(["ok", "done", "success", '{"status": "ok"}', '{"ok": true}', '{"success": true}', "true"])
    if rng.random() < 0.5:
        return tool, text, dict(zip(keys, values)), status, "Done."
    value = rng.choice([words.noun, words.person, lambda r: r.randrange(1000), _text])(rng)
    if rng.random() < 0.5:
        return tool, text, dict(zip(keys, values)), str(value), f"The result is {value}."
    key = rng.choice(["result", "answer", "value", "price", "name", "number", "color", "size", words.noun(rng)])
    return tool, text, dict(zip(keys, values)), json.dumps({key: value}, ensure_ascii=False), f"The {key} is {value}."


def action(rng):
    names, about, parameters, requests, *_ = rng.choice(ACTIONS)
    return _request(rng, names, about, parameters, requests)


def invented(rng):
    """A tool that exists nowhere, so that names must be read from the schema."""
    verb = rng.choice("get find show make check open read start stop count update remove add load save print move create delete fetch".split()) if rng.random() < 0.6 else words.made_up(rng, 1, 2)
    thing = words.noun(rng)
    name = f"{verb}_{thing}" if rng.random() < 0.8 else verb
    if rng.random() < 0.4:
        key, maker = rng.choice(["name", "value", "item", "id", "key", "title", "person", "topic", words.noun(rng)]), rng.choice([words.noun, words.person, _text, words.city, words.made_up])
        requests = [f"{verb} the {thing} {{0}}.", f"Please {verb} the {thing} {{0}}.", f"{verb.capitalize()} the {thing} called {{0}}.", f"Can you {verb} the {thing} {{0}}?", f"{verb.capitalize()} {thing} {{0}}.", f"{verb.capitalize()} the {thing} of {{0}}.",
                    f"What is the {thing} of {{0}}?" if verb in ("get", "find", "show", "fetch") else f"{verb.capitalize()} the {thing} for {{0}}."]
        parameters = {key: ("string", f"The {key}", maker)}
    elif rng.random() < 0.5:
        first, second = rng.sample(["name", "value", "item", "city", "color", "person", "place", "day"], 2)
        parameters = {first: ("string", f"The {first}", words.noun), second: ("string", f"The {second}", rng.choice([words.noun, words.person, words.city]))}
        requests = [f"{verb.capitalize()} the {thing} with {first} {{0}} and {second} {{1}}.", f"Please {verb} the {thing} with the {first} {{0}} and the {second} {{1}}."]
    else:
        key = rng.choice(["count", "number", "size", "amount", "id", "index", "limit"])
        parameters = {key: ("integer", f"The {key}", lambda r: r.randrange(10 ** r.randint(1, 4)))}
        requests = [f"{verb.capitalize()} the {thing} {{0}}.", f"{verb.capitalize()} {{0}} {thing}s.", f"{verb.capitalize()} the {thing} with {key} {{0}}."]
    return _request(rng, name, f"{verb.capitalize()} {rng.choice(['a', 'the'])} {thing}", parameters, requests)


MAKERS = [weather] * 7 + [calculator] * 4 + [adder] + [clock] * 3 + [here] + [search] * 3 + [action] * 6 + [invented] * 8


def _call(tool, arguments):
    return {"type": "function", "function": {"name": tool["function"]["name"], "arguments": arguments}}


def _offered(rng, tool, others=(0, 0, 0, 0, 0, 1, 1, 2)):
    tools = [tool]
    for _ in range(rng.choice(others)):
        other = rng.choice(MAKERS)(rng)[0]
        if other["function"]["name"] not in [t["function"]["name"] for t in tools]:
            tools.append(other)
    rng.shuffle(tools)
    return tools


def _weather_pair(rng):
    """Two places in one request: two calls."""
    tool, _, arguments, *_ = weather(rng)
    key, a = next(iter(arguments.items()))
    b = words.city(rng)
    text = rng.choice(["What is the weather in {a} and {b}?", "What is the weather in {a} and in {b}?", "Compare the weather in {a} and {b}."]).replace("{a}", a).replace("{b}", b)
    return tool, text, [_call(tool, {key: a}), _call(tool, {key: b})]


def conversation(rng: random.Random, filler):
    """(tools, messages): a request that fits a tool, sometimes with its result, or one that does not."""
    if rng.random() < 0.04:
        tool, text, calls = _weather_pair(rng)
        return _offered(rng, tool), [{"role": "user", "content": _punctuate(rng, text)}, {"role": "assistant", "content": "", "tool_calls": calls}]
    tool, text, arguments, result, said = rng.choice(MAKERS)(rng)
    tools = _offered(rng, tool)
    roll = rng.random()
    if roll < 0.27:
        item = filler(rng)
        return tools, [{"role": "user", "content": item["user"]}, {"role": "assistant", "content": item["answer"]}]
    messages = []
    if rng.random() < 0.12:
        item = filler(rng)
        messages += [{"role": "user", "content": item["user"]}, {"role": "assistant", "content": item["answer"]}]
    messages += [{"role": "user", "content": _punctuate(rng, text)}, {"role": "assistant", "content": "", "tool_calls": [_call(tool, arguments)]}]
    if rng.random() < 0.4:
        messages += [{"role": "tool", "content": result}, {"role": "assistant", "content": said}]
        if rng.random() < 0.15:
            item = filler(rng)
            messages += [{"role": "user", "content": item["user"]}, {"role": "assistant", "content": item["answer"]}]
    return tools, messages
