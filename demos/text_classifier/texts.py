"""Messages to a shop's help desk, made up from parts, and the topic of each."""

TOPICS = ["account", "billing", "delivery", "praise", "return", "technical"]

THINGS = """phone laptop lamp kettle jacket shoes backpack headphones chair desk camera printer watch
tablet toaster blender bicycle helmet tent sofa mixer keyboard monitor speaker heater vacuum""".split()

OPENINGS = ["", "", "", "", "Hello, ", "Hi, ", "Good morning, ", "Dear team, ", "Hey, ", "Excuse me, ", "Hi there! ", "Please help: "]
ENDINGS = ["", "", "", "", " Thanks.", " Please help.", " What should I do?", " Can you look into it?", " Best regards", " Thank you in advance!", " This is urgent."]
WHEN = ["yesterday", "last week", "today", "on Monday", "two weeks ago", "this morning", "in March", "a month ago", "three days ago"]

SENTENCES = {
    "account": """I cannot log in|I forgot my password|my login does not work any more|how do I change my password|please reset my password
the reset mail never arrives|I want to change my email address|how can I delete my account|my account is locked|I cannot sign in since {when}
the code for signing in does not come|I want to change my user name|how do I close my profile|someone else signed in to my account
I was logged out and cannot get back in|please update the phone number in my profile|the verification code is not accepted|my profile shows a wrong name
how do I switch on two-factor login|I need access to my old account|I cannot register with my email|it says my user name is taken""",
    "billing": """you charged me twice|my card was charged {when} and I do not know why|I need an invoice for the {thing}|the invoice shows a wrong amount|why was I billed again
the payment failed but the money is gone|can I pay in installments|my credit card is declined|there is a fee on my bill that I do not understand
please send me the receipt for the {thing}|the discount is missing on my invoice|I paid too much for the {thing}|the tax on my bill is wrong|which ways to pay do you accept
I was charged after the trial ended|the price on the invoice is higher than in the shop|can I get a copy of my bill from {when}|my voucher was not subtracted from the total
the direct debit came back|please change my payment method|I see two payments for one order|how do I update my card""",
    "delivery": """where is my {thing}|my package has not arrived|the tracking number does not work|when will the {thing} be shipped|my order from {when} is late
the parcel was delivered to the wrong address|can I change the delivery address|the courier did not ring|how long does shipping take|do you ship to Norway
the tracking says delivered but I have nothing|the {thing} was supposed to come {when}|can you deliver on Saturday|my parcel is stuck at customs
the neighbor has no package either|how much is express shipping|the package has been in transit since {when}|I want to pick up the {thing} at the store
when does the {thing} arrive|is my order on its way|the carrier lost my parcel|part of my shipment is missing""",
    "praise": """I love my new {thing}|the {thing} is wonderful|great service as always|your support was very friendly|thank you for the quick help
best {thing} I ever bought|I am very happy with the {thing}|excellent quality and fast too|just wanted to say thank you|the {thing} works perfectly
what a great shop|you made my day|I will recommend you to my friends|five stars for your team|everything was perfect
the {thing} is even better than I hoped|really impressed by your people|amazing {thing}, thank you so much|keep up the good work|well done, the {thing} looks beautiful
so pleased with the {thing}|your colleague was a great help {when}""",
    "return": """I want to return the {thing}|how do I send the {thing} back|I would like a refund for the {thing}|the {thing} is the wrong size|can I exchange the {thing}
the {thing} does not fit|I changed my mind about the {thing}|where is my refund|I sent the {thing} back {when} and have no money yet|I ordered the wrong color
please send me a return label|how many days do I have to return the {thing}|I received the wrong {thing}|the {thing} is not what I expected
can I bring the {thing} back to a store|I want my money back for the {thing}|I would like to swap the {thing} for another one|do I have to pay for sending it back
I returned the {thing} and got only part of the refund|the {thing} is too small|the {thing} is too big|who pays the postage of a return""",
    "technical": """the {thing} does not turn on|my {thing} is broken|the {thing} stopped working {when}|the app crashes when I open it|the {thing} makes a strange noise
the website shows an error|the screen stays black|the battery of my {thing} is empty after an hour|how do I install the update|the {thing} does not connect to the network
I get an error message when I start the {thing}|the {thing} gets very hot|the button of the {thing} is stuck|the app freezes all the time|the {thing} keeps restarting
where do I find the manual of the {thing}|the update failed {when}|bluetooth does not find the {thing}|the {thing} shows a red light|the page does not load
my {thing} does not charge any more|how do I reset the {thing} to factory settings""",
}


def sentences(topic):
    return [it.strip() for line in SENTENCES[topic].splitlines() for it in line.split("|") if it.strip()]


def typo(rng, text):
    """Two letters exchanged, one left out or one doubled."""
    at = rng.randrange(1, max(2, len(text) - 2))
    return rng.choice([text[:at] + text[at + 1 : at + 2] + text[at : at + 1] + text[at + 2 :], text[:at] + text[at + 1 :], text[:at] + text[at] + text[at:]])


def message(rng, topic, of):
    """A message of the topic, its sentence from those of `of`."""
    parts = [rng.choice(of[topic])]
    if rng.random() < 0.2:
        parts.append(rng.choice(of[topic]))
    text = rng.choice([". ", " and ", ", "]).join(parts)
    text = text.format(thing=rng.choice(THINGS), when=rng.choice(WHEN))
    text = rng.choice(OPENINGS) + text + rng.choice([".", "", "!", "?"]) + rng.choice(ENDINGS)
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        text = typo(rng, text)
    return rng.choice([text, text, text[:1].upper() + text[1:], text.lower(), text.upper()])


# Written by hand, and not trained on.
UNSEEN = [
    ("My password is rejected every time I try to log in to the shop", "account"),
    ("Please remove my account and all my data", "account"),
    ("There are two charges on my credit card for one order", "billing"),
    ("Could you mail me an invoice with the VAT number of my company", "billing"),
    ("The tracking page has not changed for six days, where is the parcel?", "delivery"),
    ("Is it possible to ship the chair to another address", "delivery"),
    ("Thank you so much, the jacket is beautiful!", "praise"),
    ("Your team was really friendly and quick, great job", "praise"),
    ("These shoes are too tight, I want to exchange them for a larger size", "return"),
    ("When do I get the refund for the lamp I sent back?", "return"),
    ("The printer shows an error and does not print any more", "technical"),
    ("After the update my tablet restarts all the time", "technical"),
]
