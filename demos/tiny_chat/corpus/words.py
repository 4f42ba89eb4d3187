"""Word lists, and made-up words, from which the skills draw."""

import random

NAMES = """Anna Ben Clara David Emma Felix Grace Henry Ida Jack Kate Leo Maria Noah Olga Paul Rosa Sam Tina Victor Wendy Tom Alice Bob Carol
Dave Eve Frank Greta Hans Irene John Karl Lena Mark Nina Oscar Peter Ruth Simon Tara Uma Vera Walter Yara Zoe Adam Bella Chris Diana Eric Fiona
George Hannah Ivan Julia Kevin Laura Max Nora Oliver Petra Robert Sara Thomas Ursula Vincent William Alex Amy Anton Bruno Charlie Daniel Elena
Emil Eva Flora Gina Hugo Ines Jonas Kim Linda Luca Lucy Mia Michael Mila Moritz Nadia Otto Pia Rita Sophie Stefan Susan Theo Tim Ada Alan Linus
Raj Priya Wei Yuki Omar Fatima Ali Aisha Carlos Sofia Diego Chen Mei Ravi Jane Mary James Joe Steve Rachel Emily Jacob Liam Ella Lily""".split()

CITIES = """Berlin Paris London Rome Madrid Vienna Prague Oslo Dublin Athens Lisbon Warsaw Munich Hamburg Cologne Zurich Geneva Milan Venice
Tokyo Boston Chicago Seattle Austin Denver Dallas Miami Toronto Montreal Sydney Melbourne Cairo Delhi Mumbai Beijing Shanghai Seoul Moscow Kyiv
Helsinki Stockholm Copenhagen Brussels Amsterdam Budapest Lima Bogota Santiago Havana Nairobi Lagos Dubai Istanbul Ankara Singapore Bangkok Hanoi
Kyoto Osaka Porto Seville Barcelona Valencia Lyon Nice Bremen Dresden Leipzig Stuttgart Frankfurt Krakow Gdansk""".split() + [
    "New York", "San Francisco", "Los Angeles", "Hong Kong", "Cape Town", "Buenos Aires", "Mexico City", "Tel Aviv"]

COLORS = "red blue green yellow orange purple pink brown black white gray gold silver turquoise violet".split()
PETS = "cat dog rabbit hamster parrot turtle horse fish bird mouse pony snake lizard goldfish".split()
PET_NAMES = """Rex Luna Bella Max Milo Coco Rocky Daisy Simba Nala Oreo Bruno Lucky Ginger Shadow Toby Molly Charlie Buddy Whiskers Fluffy Felix
Oscar Biscuit Pepper Pixel Mango Ziggy Bubbles Snowball""".split()
FOODS = """pizza pasta rice bread cheese soup salad chocolate cake ice-cream sushi curry potatoes apples bananas noodles pancakes fish chicken
eggs honey tomatoes cookies""".split()
JOBS = """teacher doctor engineer nurse baker painter writer farmer pilot gardener cook lawyer student programmer driver singer carpenter
scientist photographer librarian mechanic musician plumber""".split()
HOBBIES = """chess football tennis swimming reading painting cooking hiking dancing singing gardening cycling running fishing skiing drawing
photography climbing sailing knitting yoga""".split()

COMMON = """the a this that these those it he she we they you one two three four five six seven eight nine ten is are was were has have had can
will would should may must do does did go goes went come comes came see saw look looks make makes made take took give gave find found get got know
knew think thought say said tell told ask asked work works worked play played run runs ran walk walked read write wrote eat ate drink drank sleep
sleeps slept open opened close closed start started stop stopped love loves like likes want wants need needs help helps hope live lives good bad
big small large little long short old new young hot cold warm cool fast slow high low early late happy sad kind quiet loud bright dark clean dirty
easy hard soft strong weak rich poor red blue green yellow orange purple black white brown gray pink man woman boy girl child people friend family
mother father brother sister son daughter teacher student doctor king queen dog cat bird fish horse cow mouse lion tiger bear fox wolf rabbit tree
flower grass leaf forest river lake sea ocean mountain hill valley island beach sky sun moon star cloud rain snow wind storm fire water earth stone
rock sand ice house home room door window wall roof floor table chair bed lamp clock book page pen paper letter word line story song music picture
color number name day night morning evening noon week month year hour minute second time today tomorrow yesterday spring summer autumn winter city
town village street road bridge car bus train ship boat plane bike wheel garden park school shop market farm field church castle tower bread milk
cheese egg apple banana pear cherry lemon grape nut cake soup tea coffee sugar salt rice meat hand foot head eye ear nose mouth arm leg heart hair
face body game ball toy box bag cup plate knife fork spoon bottle glass key coin money gold silver iron wood test tests message server model graph
node stream packet token prompt request answer question data code file folder engine cache batch queue thread memory machine computer program
screen button network client user system error in on at by to of for from with without under over near between through after before and or but not
so very too also always never often sometimes here there now then again only just still even more most less all some many few every each other
another same different first last next my your his her our their its hello world thanks please yes no okay welcome goodbye friend everything
nothing something someone everyone anything why how what when where who which because if while until against during about around behind beside
simple quick lazy brown jumps great fine nice sunny rainy cloudy ready done true false right left up down back away together alone""".split()

STARTERS = """this that the a my your our their it we they you he she I there here today tomorrow one two all some every no what where when how
please never always good big small old new hello red blue green cats dogs birds people time life winter summer coffee music water""".split()

_ONSETS = "b c d f g h j k l m n p r s t v w z br cl dr fl gr kr pl st tr sh ch bl sp".split()
_NUCLEI = "a e i o u a e i o ai ee oo ia".split()
_CODAS = ["", "", "", "n", "r", "l", "s", "t", "m", "x", "ck", "nd", "sh", "ng"]


def made_up(rng: random.Random, low=1, high=3) -> str:
    """A pronounceable word that no list holds, for skills that must copy what they have never seen."""
    return "".join(rng.choice(_ONSETS) + rng.choice(_NUCLEI) + rng.choice(_CODAS) for _ in range(rng.randint(low, high)))


def person(rng: random.Random) -> str:
    return rng.choice(NAMES) if rng.random() < 0.7 else made_up(rng).capitalize()


def city(rng: random.Random) -> str:
    return rng.choice(CITIES) if rng.random() < 0.75 else made_up(rng, 2, 3).capitalize()


def noun(rng: random.Random) -> str:
    return rng.choice(COMMON) if rng.random() < 0.7 else made_up(rng)


SMALL = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty".split()


def number_word(n: int) -> str:
    return SMALL[n] if n < len(SMALL) else str(n)


def sentence_case(text: str) -> str:
    return text[:1].upper() + text[1:]
