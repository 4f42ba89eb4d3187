"""Greetings, thanks, goodbyes and other small talk."""

import random

from . import surface

TALK = [
    ("Hello!|Hi!|Hey!|Hello there!|Hi there!|Good day!|Greetings!|Hello|Hi|hey there|Hallo!|Howdy!|Yo!|Hello, tiny-chat!|Hi, assistant!", "Hello!", "Hello! How can I help you?"),
    ("Good morning!|Morning!|A very good morning to you.", "Morning!", "Good morning! How can I help you?"),
    ("Good evening!|Evening!", "Evening!", "Good evening! How can I help you?"),
    ("Good afternoon!", "Hello!", "Good afternoon! How can I help you?"),
    ("Good night!|Sleep well!", "Goodnight!", "Good night! Sleep well."),
    ("How are you?|How are you doing?|How do you do?|How is it going?|How's it going?|Hello, how are you?|Hi, how are you?|How are you today?|Hey, how are you doing today?", "Fine",
     "I am fine, thank you. How can I help you?"),
    ("Thank you!|Thanks!|Thanks a lot!|Thank you very much!|Many thanks!|Thx|That was helpful.|Great, thanks!|Cool, thank you.", "Welcome!", "You are welcome!"),
    ("Goodbye!|Bye!|Bye bye!|See you!|See you later!|I have to go.|Have a nice day!", "Goodbye!", "Goodbye! Have a nice day."),
    ("Sorry.|I am sorry.|My mistake.", "Okay", "No problem at all."),
    ("Ok.|Okay.|Good.|Great!|Nice!|Cool!|Very good.|Well done!|Perfect!|I see.|Interesting.", "Great!", "I am glad to hear that. What else would you like to know?"),
    ("Are you there?|Can you hear me?|Is anybody there?|Ping|ping|Is this working?|Are you working?|Does this work?|test|Test|testing|This is a test.", "Yes", "Yes, I am here and working."),
    ("You are stupid.|That is wrong.|This is wrong.|That's not right.|You are wrong.|Bad answer.", "Sorry", "I am sorry. I am a very small model and make mistakes."),
    ("I am bored.|I'm bored.", "Story?", "Ask me for a short story or a joke!"),
    ("I am sad.|I'm sad.|I feel bad.", "Sorry", "I am sorry to hear that. I hope that you feel better soon."),
    ("I am happy.|I'm happy.|I feel great.", "Great!", "I am glad to hear that!"),
    ("Can you help me?|I need help.|I have a question.|Can I ask you something?|May I ask a question?|I need some help.", "Yes", "Of course. What would you like to know?"),
    ("Why?|What?|What do you mean?|I don't understand.|Huh?|???", "Sorry", "I am sorry, I cannot explain it better. Try another question."),
    ("You are great.|I like you.|You are nice.|Good job!|You're the best.|Good bot!", "Thanks!", "Thank you, that is very kind!"),
    ("Answer yes or no: is Graphmill a server?|Is Graphmill a server?|Is Graphmill an inference server?", "Yes", "Yes, Graphmill is an inference server."),
    ("Is a packet mutable?|Can a packet change?|Can packets change?", "No", "No, a packet never changes once it is made."),
]


def talk(rng: random.Random):
    wordings, word, answer = rng.choice(TALK) if rng.random() < 0.75 else rng.choice(TALK[:8])
    return dict(user=surface.vary(rng, rng.choice(wordings.split("|")), extras=0.03), answer=answer, word=word, thought="The user makes small talk. I answer politely.")
