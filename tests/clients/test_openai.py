"""PyPI `openai` against the server: sync, async and the `.stream()` helper, chat and completions, under /v3 and /v1."""

import asyncio

import openai
import pytest

from conftest import MODEL

QUESTION = [{"role": "user", "content": "What is OpenVINO?"}]


@pytest.fixture(params=["/v3", "/v1"])
def client(server, request):
    return openai.OpenAI(base_url=server.url + request.param, api_key="unused", max_retries=0)


def answer(answers, content):
    """The pinned greedy answer to a single user message."""
    messages = [{"role": "user", "content": content}]
    return next(a["expected"] for a in answers if a["messages"] == messages and "tools" not in a and "chat_template_kwargs" not in a)


def test_chat_unary(client, answers):
    completion = client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0)
    (choice,) = completion.choices
    assert choice.message.role == "assistant"
    assert choice.message.content == answer(answers, QUESTION[0]["content"])
    assert choice.finish_reason == "stop"
    assert completion.object == "chat.completion"
    assert completion.id and completion.created > 1_700_000_000 and completion.model == MODEL
    usage = completion.usage
    assert usage.prompt_tokens > 0 and usage.completion_tokens > 0
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


def test_chat_stream_equals_unary(client, answers):
    chunks = list(client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0, stream=True))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].delta.role for c in chunks[1:]] == [None] * (len(chunks) - 1)
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == answer(answers, QUESTION[0]["content"])
    assert [c.choices[0].finish_reason for c in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert len({(c.id, c.created, c.model, c.object) for c in chunks}) == 1
    assert all(c.usage is None for c in chunks)


def test_usage_is_streamed_on_request_only(client):
    chunks = list(
        client.chat.completions.create(
            model=MODEL, messages=QUESTION, temperature=0, stream=True, stream_options={"include_usage": True}
        )
    )
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens > 0
    assert all(c.usage is None for c in chunks[:-1])


def test_stream_helper(client, answers):
    """The strictest accumulator: it concatenates every string it sees twice."""
    with client.chat.completions.stream(model=MODEL, messages=QUESTION, temperature=0) as stream:
        for _ in stream:
            pass
        completion = stream.get_final_completion()
    assert completion.choices[0].message.role == "assistant"
    assert completion.choices[0].message.content == answer(answers, QUESTION[0]["content"])


def test_completions(client):
    arguments = {"model": MODEL, "prompt": "Graphmill is", "temperature": 0, "max_tokens": 12}
    completion = client.completions.create(**arguments)
    assert completion.object == "text_completion"
    assert completion.choices[0].text
    chunks = list(client.completions.create(**arguments, stream=True))
    assert "".join(c.choices[0].text for c in chunks) == completion.choices[0].text
    assert chunks[-1].choices[0].finish_reason == completion.choices[0].finish_reason


def test_max_tokens_ends_with_length(client):
    completion = client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0, max_completion_tokens=3)
    assert completion.choices[0].finish_reason == "length"
    assert completion.usage.completion_tokens == 3


def test_stop_string_that_spans_tokens(client, answers):
    full = answer(answers, QUESTION[0]["content"])
    stop = full[5:17]
    completion = client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0, stop=[stop])
    assert completion.choices[0].message.content == full[: full.index(stop)]
    assert completion.choices[0].finish_reason == "stop"


def test_seed_makes_sampling_repeatable(client):
    def ask(seed):
        completion = client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "Tell me a story"}], temperature=1.5, seed=seed, max_tokens=48
        )
        return completion.choices[0].message.content

    assert ask(7) == ask(7)
    assert len({ask(seed) for seed in range(4)}) > 1


def test_models(client):
    assert MODEL in [model.id for model in client.models.list().data]
    assert client.models.retrieve(MODEL).id == MODEL


def test_async_streams_side_by_side(server, answers):
    """32 streams at once, each with the text that it gives alone."""
    prompts = [a for a in answers if "tools" not in a and "chat_template_kwargs" not in a]
    wanted = [prompts[i % len(prompts)] for i in range(32)]

    async def ask(client, prompt):
        stream = await client.chat.completions.create(model=MODEL, messages=prompt["messages"], temperature=0, stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    async def ask_all():
        async with openai.AsyncOpenAI(base_url=server.url + "/v3", api_key="unused", max_retries=0) as client:
            return await asyncio.gather(*(ask(client, prompt) for prompt in wanted))

    assert asyncio.run(ask_all()) == [prompt["expected"] for prompt in wanted]


def test_pinned_answers(server, answers):
    """What the shipped model says, with tools and thinking where the prompt has them."""
    client = openai.OpenAI(base_url=server.url + "/v3", api_key="unused", max_retries=0)
    for prompt in answers:
        extra = {"chat_template_kwargs": prompt["chat_template_kwargs"]} if "chat_template_kwargs" in prompt else None
        completion = client.chat.completions.create(
            model=MODEL,
            messages=prompt["messages"],
            tools=prompt.get("tools", openai.omit),
            temperature=0,
            extra_body=extra,
        )
        assert written(completion.choices[0].message) == prompt["expected"], prompt["messages"]


def written(message):
    """A message as the model wrote it."""
    text = f"<think>\n{message.reasoning_content}\n</think>\n\n" if hasattr(message, "reasoning_content") else ""
    text += message.content or ""
    for call in message.tool_calls or []:
        text += f'<tool_call>\n{{"name": "{call.function.name}", "arguments": {call.function.arguments}}}\n</tool_call>'
    return text


@pytest.mark.parametrize(
    ("arguments", "status", "code", "param"),
    [
        ({"model": "graphmill/tiny-chta"}, openai.NotFoundError, "model_not_found", "model"),
        ({"temperature": 3}, openai.BadRequestError, None, "temperature"),
        ({"messages": []}, openai.BadRequestError, None, "messages"),
        ({"max_tokens": -2}, openai.BadRequestError, None, "max_tokens"),
        ({"messages": [{"role": "user", "content": "word " * 20_000}]}, openai.BadRequestError, "context_length_exceeded", "messages"),
    ],
)
def test_errors(client, arguments, status, code, param):
    with pytest.raises(status) as caught:
        client.chat.completions.create(**{"model": MODEL, "messages": QUESTION, **arguments})
    assert caught.value.param == param
    if code:
        assert caught.value.code == code
    assert caught.value.body["message"] and caught.value.body["type"] == "invalid_request_error"


def test_unknown_model_lists_near_names(client):
    with pytest.raises(openai.NotFoundError, match=MODEL):
        client.chat.completions.create(model="graphmill/tiny-chta", messages=QUESTION)


def test_the_open_graph_answers_like_the_embedded_one(client, answers):
    completion = client.chat.completions.create(model="chat", messages=QUESTION, temperature=0)
    assert completion.choices[0].message.content == answer(answers, QUESTION[0]["content"])
