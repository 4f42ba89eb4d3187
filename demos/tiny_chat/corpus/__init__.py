"""The training text: endless, drawn from templates by a seeded generator.

`sample(rng)` gives one example: {"messages", "tools", "kwargs", "only_last"} for a conversation or {"text"} for plain text.
"""

import random

from . import copying, lists, memory, numbers, plain, questions, smalltalk, stories, systems, tools

# Single-turn items: (maker, weight in conversations, weight among short fillers between other turns)
ITEMS = [
    (questions.term, 24, 10), (questions.question, 11, 8), (questions.unknown, 5, 3), (smalltalk.talk, 8, 10), (copying.copy, 18, 6),
    (numbers.count, 6, 3), (numbers.arithmetic, 14, 6), (numbers.compare, 1.5, 0.5), (numbers.next_number, 1.5, 0.5), (lists.things, 44, 8), (lists.single, 1, 0.5),
    (lists.successor, 2, 0.5), (stories.story, 7, 0.3), (memory.never_told, 2, 0), (memory.at_once, 3, 0), (memory.greet, 1.5, 0.5),
]


def _chooser(column):
    makers, weights = [row[0] for row in ITEMS if row[column]], [row[column] for row in ITEMS if row[column]]
    return lambda rng: rng.choices(makers, weights)[0](rng)


item = _chooser(1)
filler = _chooser(2)


def _example(messages, tools=None, only_last=False, **kwargs):
    return dict(messages=messages, tools=tools, kwargs=kwargs, only_last=only_last)


def _turns(pairs):
    return [m for user, answer in pairs for m in ({"role": "user", "content": user}, {"role": "assistant", "content": answer})]


def _system(rng, messages, chance=0.25):
    return [{"role": "system", "content": systems.neutral(rng)}] + messages if rng.random() < chance else messages


def single(rng):
    it = item(rng)
    return _example(_system(rng, _turns([(it["user"], it["answer"])])))


def chain(rng):
    """A conversation of unrelated turns, at times a long one."""
    n = rng.choice([2, 2, 3, 3, 4, 5]) if rng.random() < 0.9 else rng.randint(8, 24)
    items = [filler(rng) for _ in range(n)]
    if rng.random() < 0.15:
        items.append(memory.never_told(rng))
    return _example(_system(rng, _turns([(it["user"], it["answer"]) for it in items])))


def remembered(rng):
    return _example(_system(rng, _turns(memory.recall(rng, filler))))


def styled(rng):
    """A system prompt that the answers follow, for one or more turns."""
    style = rng.choices([systems.one_word, systems.pirate, systems.json_object, systems.ending, systems.starting, None], [64, 10, 8, 4, 4, 10])[0]
    if style is None:
        system, user, answer = systems.named(rng)
        pairs = [(user, answer)]
        if rng.random() < 0.4:
            it = filler(rng)
            pairs.insert(rng.choice([0, 1]), (it["user"], it["answer"]))
        return _example([{"role": "system", "content": system}] + _turns(pairs))
    pairs, system = [], None
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        it = item(rng)
        while style is systems.one_word and not it["word"] or len(it["answer"]) > 300:
            it = item(rng)
        prompt, answer = style(rng, it)
        if system is None:
            system, added = prompt, answer.replace(it["answer"], "\0", 1)
        elif style in (systems.ending, systems.starting):
            answer = added.replace("\0", it["answer"])
        pairs.append((it["user"], answer))
    return _example([{"role": "system", "content": system}] + _turns(pairs))


def one_word_inline(rng):
    """The wish for one word stands in the question itself."""
    it = item(rng)
    while not it["word"]:
        it = item(rng)
    user = rng.choice(["{u} Answer in one word.", "{u} Answer in one word", "Answer in one word: {u}", "In one word: {u}", "{u} (one word)", "{u} Reply with one word only.", "{u} One word, please."]).replace("{u}", it["user"])
    return _example(_turns([(user, it["word"].rstrip(".!?") + ("." if it["word"][0].isupper() else ""))]))


def tool_use(rng):
    offered, messages = tools.conversation(rng, filler)
    return _example(_system(rng, messages, 0.3), tools=offered)


def thinking(rng):
    """The template asks for thoughts: they stand before the last answer."""
    it = item(rng)
    pairs = []
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        other = filler(rng)
        pairs.append((other["user"], other["answer"]))
    answer, system = it["answer"], _system(rng, [], 0.2)
    if it["word"] and rng.random() < 0.08:
        text, answer = systems.one_word(rng, it)
        system = [{"role": "system", "content": text}]
    messages = system + _turns(pairs + [(it["user"], f"<think>\n{it['thought']}\n</think>\n\n{answer}")])
    return _example(messages, only_last=True, enable_thinking=True)


def thinking_tool(rng):
    """Thoughts before a tool call."""
    tool, text, arguments, *_ = rng.choice(tools.MAKERS)(rng)
    name = tool["function"]["name"]
    call = tools.json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    answer = f"<think>\nThe user asks for something that {name} can do. I call it.\n</think>\n\n<tool_call>\n{call}\n</tool_call>"
    return _example([{"role": "user", "content": text}, {"role": "assistant", "content": answer}], tools=[tool], only_last=True, enable_thinking=True)


def plain_text(rng):
    return dict(text=plain.text(rng))


KINDS = [(single, 46), (chain, 8), (remembered, 12), (styled, 34), (one_word_inline, 8), (tool_use, 24), (thinking, 6), (thinking_tool, 1), (plain_text, 3)]


def sample(rng: random.Random):
    kinds, weights = zip(*KINDS)
    return rng.choices(kinds, weights)[0](rng)
