"""Lists of things, as many as the user asks for."""

import random

from . import surface
from .words import number_word, sentence_case

# (plural names, items, whether the whole list is usual)
LISTS = [
    ("colors|colours", "Red|Blue|Green|Yellow|Orange|Purple|Pink|Brown|Black|White", False),
    ("fruits|kinds of fruit|fruit", "Apple|Banana|Orange|Pear|Grape|Cherry|Lemon|Mango|Peach|Plum", False),
    ("vegetables", "Carrot|Potato|Tomato|Onion|Cabbage|Bean|Pea|Spinach|Pumpkin|Lettuce", False),
    ("animals", "Cat|Dog|Horse|Cow|Lion|Tiger|Bear|Elephant|Rabbit|Fox", False),
    ("birds", "Eagle|Robin|Owl|Sparrow|Duck|Swan|Parrot|Penguin|Pigeon|Raven", False),
    ("pets", "Cat|Dog|Rabbit|Hamster|Parrot|Goldfish", False),
    ("planets|planets of the solar system|planets in the solar system", "Mercury|Venus|Earth|Mars|Jupiter|Saturn|Uranus|Neptune", True),
    ("days of the week|weekdays|days|days in a week", "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday", True),
    ("months|months of the year|months in a year", "January|February|March|April|May|June|July|August|September|October|November|December", True),
    ("seasons|seasons of the year", "Spring|Summer|Autumn|Winter", True),
    ("continents", "Africa|Antarctica|Asia|Australia|Europe|North America|South America", True),
    ("oceans", "Pacific|Atlantic|Indian|Arctic|Southern", True),
    ("countries", "Germany|France|Italy|Spain|Japan|Brazil|Canada|India|Egypt|Kenya", False),
    ("cities|big cities", "London|Paris|Berlin|Tokyo|New York|Rome|Madrid|Sydney|Cairo|Delhi", False),
    ("sports", "Football|Tennis|Swimming|Running|Basketball|Skiing|Cycling|Boxing|Golf|Rowing", False),
    ("musical instruments|instruments", "Piano|Guitar|Violin|Flute|Drums|Trumpet|Cello|Harp|Organ|Clarinet", False),
    ("drinks|beverages", "Water|Tea|Coffee|Milk|Juice|Lemonade", False),
    ("shapes", "Circle|Square|Triangle|Rectangle|Oval|Star", False),
    ("metals", "Iron|Gold|Silver|Copper|Tin|Lead|Zinc|Nickel", False),
    ("trees", "Oak|Pine|Birch|Maple|Beech|Willow|Ash|Elm", False),
    ("flowers", "Rose|Tulip|Lily|Daisy|Sunflower|Violet|Orchid|Poppy", False),
    ("programming languages", "Rust|Python|C|Java|Go|JavaScript|Ruby|Swift", False),
    ("operating systems", "Linux|Windows|macOS|Android|iOS", False),
    ("senses|human senses", "Sight|Hearing|Smell|Taste|Touch", True),
    ("vehicles", "Car|Bus|Train|Bicycle|Ship|Plane|Truck|Tram", False),
    ("clothes|pieces of clothing", "Shirt|Trousers|Dress|Coat|Hat|Shoes|Socks|Gloves", False),
    ("body parts|parts of the body", "Head|Arm|Leg|Hand|Foot|Eye|Ear|Nose|Mouth|Back", False),
    ("furniture|pieces of furniture", "Table|Chair|Bed|Sofa|Desk|Shelf", False),
    ("tools", "Hammer|Saw|Drill|Pliers|Wrench|Screwdriver", False),
    ("jobs|professions", "Teacher|Doctor|Engineer|Baker|Farmer|Nurse|Pilot|Cook", False),
    ("languages", "English|German|French|Spanish|Italian|Chinese|Japanese|Arabic", False),
    ("primary colors|primary colours", "Red|Yellow|Blue", True),
    ("input policies|input stream handlers|input policies of Graphmill", "Default|Immediate|Sync set", True),
    ("parts of a graph|parts of a dataflow graph", "Nodes|Streams|Packets|Side packets|Options", True),
    ("sampling parameters", "temperature|top_p|top_k|min_p|seed", False),
    ("endpoints of Graphmill|endpoints", "/v3/chat/completions|/v3/completions|/v3/models|/v3/status", True),
    ("nodes of the chat graph|nodes in the chat graph", "Request parser|Chat template|Tokenizer|LLM executor|Detokenizer|Stop string matcher|Response formatter", True),
    ("even numbers", "2|4|6|8|10|12|14|16|18|20", False),
    ("odd numbers", "1|3|5|7|9|11|13|15|17|19", False),
    ("letters|letters of the alphabet", "A|B|C|D|E|F|G|H|I|J", False),
    ("vowels", "A|E|I|O|U", True),
    ("names|first names", "Anna|Ben|Clara|David|Emma|Felix|Grace|Henry|Ida|Jack", False),
]
_COUNTED = ["List {n} {x}.", "List {n} {x}.", "Name {n} {x}.", "Name {n} {x}.", "Give me {n} {x}.", "Tell me {n} {x}.", "Can you list {n} {x}?", "Can you name {n} {x}?", "What are {n} {x}?", "{N} {x}, please.", "Write a list of {n} {x}.", "Please list {n} {x}.", "I need {n} {x}.",
            "Show me {n} {x}.", "Give me a list of {n} {x}.", "Make a list of {n} {x}."]
_ALL = ["List the {x}.", "List all {x}.", "Name the {x}.", "What are the {x}?", "Can you list the {x}?", "Tell me the {x}.", "Which {x} are there?", "Name all {x}.", "Give me a list of the {x}.", "Please list the {x}."]
_SOME = ["List some {x}.", "Name some {x}.", "Give me some {x}.", "List {x}.", "Tell me some {x}.", "Can you name some {x}?", "Give me a list of {x}.", "Make a list of {x}.", "Name a few {x}.", "Which {x} do you know?"]


def numbered(items) -> str:
    return "\n".join(f"{i}. {item}" for i, item in enumerate(items, 1))


def things(rng: random.Random):
    names, items, closed = rng.choice(LISTS)
    name, items = rng.choice(names.split("|")), items.split("|")
    if rng.random() < (0.35 if closed else 0.75):
        n = min(len(items), rng.choice([2, 3, 3, 3, 3, 4, 4, 5, 5, 6, 7, 8, 10]))
        said = number_word(n) if rng.random() < 0.55 else str(n)
        text = rng.choice(_COUNTED).replace("{n}", said).replace("{N}", sentence_case(said)).replace("{x}", name)
        wanted = f"{n} {name}"
    elif closed:
        n, text, wanted = len(items), rng.choice(_ALL if rng.random() < 0.8 else _SOME).replace("{x}", name), f"the {name}"
    else:
        n, text, wanted = min(5, len(items)), rng.choice(_SOME).replace("{x}", name), f"some {name}"
    return dict(user=surface.vary(rng, text, typos=0.02), answer=numbered(items[:n]), word=None, thought=f"The user wants a list of {wanted}.")


def single(rng: random.Random):
    """One example of a kind of thing."""
    names, items, _ = rng.choice(LISTS[:31])
    name, item = names.split("|")[0], items.split("|")[0]
    text = rng.choice(["Name one of the {x}.", "Tell me one of the {x}.", "Give me an example from the {x}.", "Name one example of {x}."]).replace("{x}", name)
    return dict(user=surface.vary(rng, text, typos=0.02), answer=f"{item}.", word=item, thought=f"The user wants one of the {name}.")


def successor(rng: random.Random):
    """What follows in a closed order, such as the days."""
    kind, items = rng.choice([("day", LISTS[7][1].split("|")), ("month", LISTS[8][1].split("|"))])
    i = rng.randrange(len(items))
    after = rng.random() < 0.6
    result = items[(i + (1 if after else -1)) % len(items)]
    word = "after" if after else "before"
    text = rng.choice(["Which {k} comes {w} {x}?", "What {k} comes {w} {x}?", "What comes {w} {x}?", "Which {k} is {w} {x}?"]).replace("{k}", kind).replace("{w}", word).replace("{x}", items[i])
    return dict(user=surface.vary(rng, text, typos=0.02), answer=f"{result} comes {word} {items[i]}.", word=result, thought=f"The user asks which {kind} comes {word} {items[i]}.")
