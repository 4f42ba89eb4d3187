"""PyPI `anthropic` against the server: messages, whole and streamed, counting, and errors as its exceptions."""

import anthropic
import pytest

from conftest import MODEL
from test_openai import answer

QUESTION = "What is OpenVINO?"
MESSAGES = [{"role": "user", "content": QUESTION}]
GREEDY = {"temperature": 0}


@pytest.fixture
def client(server):
    return anthropic.Anthropic(base_url=server.url, api_key="unused", max_retries=0)


def test_create(client, answers):
    message = client.messages.create(model=MODEL, max_tokens=100, extra_body=GREEDY, messages=MESSAGES)
    assert [(block.type, block.text) for block in message.content] == [("text", answer(answers, QUESTION))]
    assert (message.role, message.stop_reason, message.stop_sequence) == ("assistant", "end_turn", None)
    assert message.usage.output_tokens > 0
    assert message._request_id


def test_system_prompt(client):
    message = client.messages.create(model=MODEL, max_tokens=100, extra_body=GREEDY, system="Answer in one word.", messages=MESSAGES)
    assert message.content[0].text == "Toolkit."


def test_stream_helper(client, answers):
    with client.messages.stream(model=MODEL, max_tokens=100, extra_body=GREEDY, messages=MESSAGES) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == final.content[0].text == answer(answers, QUESTION)
    whole = client.messages.create(model=MODEL, max_tokens=100, extra_body=GREEDY, messages=MESSAGES)
    assert final.usage.output_tokens == whole.usage.output_tokens


def test_raw_stream(client):
    events = list(client.messages.create(model=MODEL, max_tokens=100, extra_body=GREEDY, messages=MESSAGES, stream=True))
    kinds = [event.type for event in events]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]


def test_stop_sequence(client):
    message = client.messages.create(model=MODEL, max_tokens=100, extra_body=GREEDY, messages=MESSAGES, stop_sequences=["zzz", " toolkit"])
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", " toolkit")
    assert message.content[0].text == "OpenVINO is an open source"


def test_count_tokens(client):
    counted = client.messages.count_tokens(model=MODEL, messages=MESSAGES)
    usage = client.messages.create(model=MODEL, max_tokens=1, messages=MESSAGES).usage
    assert counted.to_dict() == {"input_tokens": usage.input_tokens + usage.cache_read_input_tokens}


def test_models(client):
    listed = client.models.list()
    assert MODEL in [model.id for model in listed] and not listed.has_more
    model = client.models.retrieve(MODEL)
    assert model in listed.data
    assert (model.type, model.display_name) == ("model", MODEL)
    assert model.created_at.year >= 2025
    with pytest.raises(anthropic.NotFoundError) as unknown:
        client.models.retrieve("nobody")
    assert unknown.value.body["error"]["type"] == "not_found_error"


def test_errors_are_its_own(client):
    with pytest.raises(anthropic.BadRequestError) as refused:
        client.messages.create(model=MODEL, max_tokens=100, messages=[])
    error = refused.value.body["error"]
    assert error["type"] == "invalid_request_error" and "messages" in error["message"]
    with pytest.raises(anthropic.NotFoundError) as unknown:
        client.messages.create(model="nobody", max_tokens=100, messages=MESSAGES)
    assert unknown.value.body["error"]["type"] == "not_found_error"


WEATHER = {
    "name": "get_weather",
    "description": "Get the current weather for a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string", "description": "City name"}}, "required": ["city"]},
}
CALCULATOR = {
    "name": "calculator",
    "description": "Evaluate an arithmetic expression",
    "input_schema": {"type": "object", "properties": {"expression": {"type": "string", "description": "The expression"}}, "required": ["expression"]},
}


def test_a_tool_is_called_and_its_result_answered(client):
    messages = [{"role": "user", "content": "What is 123 * 456?"}]
    asked = {"model": MODEL, "max_tokens": 100, "tools": [CALCULATOR], "messages": messages, "extra_body": GREEDY}
    message = client.messages.create(**asked)
    (call,) = message.content
    assert message.stop_reason == "tool_use"
    assert (call.type, call.name, call.input) == ("tool_use", "calculator", {"expression": "123 * 456"})
    with client.messages.stream(**asked) as stream:
        streamed = stream.get_final_message()
    assert [(b.type, b.name, b.input) for b in streamed.content] == [(call.type, call.name, call.input)]
    assert streamed.stop_reason == "tool_use"

    history = [
        {"role": "user", "content": "What is the weather in Paris?"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "call_1", "name": "get_weather", "input": {"city": "Paris"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "18 degrees, cloudy"}]},
    ]
    message = client.messages.create(model=MODEL, max_tokens=100, tools=[WEATHER], messages=history, extra_body=GREEDY)
    assert message.content[0].text == "It is 18 degrees and cloudy in Paris."


def test_thinking_is_a_block_of_its_own(client):
    asked = {"model": MODEL, "max_tokens": 200, "messages": MESSAGES, "extra_body": GREEDY | {"thinking": {"type": "enabled", "budget_tokens": 1024}}}
    message = client.messages.create(**asked)
    assert [block.type for block in message.content] == ["thinking", "text"]
    with client.messages.stream(**asked) as stream:
        streamed = stream.get_final_message()
    assert [block.type for block in streamed.content] == ["thinking", "text"]
    assert streamed.content[0].thinking == message.content[0].thinking
    assert streamed.content[1].text == message.content[1].text


def test_an_answer_that_was_begun_goes_on(client):
    question = {"role": "user", "content": "What is 2 + 3?"}
    whole = client.messages.create(model=MODEL, max_tokens=30, extra_body=GREEDY, messages=[question])
    begun = {"role": "assistant", "content": "2 + 3"}
    rest = client.messages.create(model=MODEL, max_tokens=30, extra_body=GREEDY, messages=[question, begun])
    assert begun["content"] + rest.content[0].text == whole.content[0].text
