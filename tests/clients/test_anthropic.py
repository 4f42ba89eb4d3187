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
    assert counted.input_tokens == usage.input_tokens + usage.cache_read_input_tokens


def test_errors_are_its_own(client):
    with pytest.raises(anthropic.BadRequestError) as refused:
        client.messages.create(model=MODEL, max_tokens=100, messages=[])
    error = refused.value.body["error"]
    assert error["type"] == "invalid_request_error" and "messages" in error["message"]
    with pytest.raises(anthropic.NotFoundError) as unknown:
        client.messages.create(model="nobody", max_tokens=100, messages=MESSAGES)
    assert unknown.value.body["error"]["type"] == "not_found_error"
