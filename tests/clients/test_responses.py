"""PyPI `openai` against the server: Responses, whole, streamed raw and through the `.stream()` helper, which checks that items keep their identity."""

import asyncio
from typing import Literal

import openai
import pytest
from pydantic import BaseModel, ConfigDict, Field

from conftest import MODEL
from test_openai import answer

QUESTION = "What is OpenVINO?"


@pytest.fixture(params=["/v3", "/v1"])
def client(server, request):
    return openai.OpenAI(base_url=server.url + request.param, api_key="unused", max_retries=0)


def test_create(client, answers):
    response = client.responses.create(model=MODEL, input=QUESTION, temperature=0)
    assert response.output_text == answer(answers, QUESTION)
    assert (response.status, response.error, response.incomplete_details) == ("completed", None, None)
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    assert response.temperature == 0 and response.text.format.type == "text"


def test_instructions_are_the_system_message(client, answers):
    response = client.responses.create(model=MODEL, instructions="Answer in one word.", input=[{"role": "user", "content": QUESTION}], temperature=0)
    assert response.output_text == "Toolkit."


def test_raw_stream(client, answers):
    events = list(client.responses.create(model=MODEL, input=QUESTION, temperature=0, stream=True))
    assert [e.sequence_number for e in events] == list(range(len(events)))
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == answer(answers, QUESTION)
    assert events[-1].response.output_text == answer(answers, QUESTION)


def test_stream_helper(client, answers):
    with client.responses.stream(model=MODEL, input=QUESTION, temperature=0) as stream:
        snapshots = [event.snapshot for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert snapshots[-1] == final.output_text == answer(answers, QUESTION)


def test_async(server, answers):
    async def ask():
        async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="unused") as client:
            return await client.responses.create(model=MODEL, input=QUESTION, temperature=0)

    assert asyncio.run(ask()).output_text == answer(answers, QUESTION)


def test_a_cut_answer_is_incomplete(client):
    response = client.responses.create(model=MODEL, input=QUESTION, temperature=0, max_output_tokens=2)
    assert response.status == "incomplete" and response.incomplete_details.reason == "max_output_tokens"


def test_input_tokens(client):
    counted = client.responses.input_tokens.count(model=MODEL, input=QUESTION)
    assert counted.object == "response.input_tokens"
    response = client.responses.create(model=MODEL, input=QUESTION, max_output_tokens=1)
    assert counted.input_tokens == response.usage.input_tokens


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"background": True}, "background"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"tools": [{"type": "telepathy"}]}, "tools[0].type"),
    ],
)
def test_refusals_name_the_field(client, fields, param):
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model=MODEL, input=QUESTION, **fields)
    assert refused.value.param == param


CALCULATOR = {
    "type": "function",
    "name": "calculator",
    "description": "Evaluate an arithmetic expression",
    "parameters": {"type": "object", "properties": {"expression": {"type": "string", "description": "The expression"}}, "required": ["expression"]},
}
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the current weather for a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "City name"}}, "required": ["city"]},
}


def test_a_function_is_called_and_its_output_answered(client):
    asked = {"model": MODEL, "input": "What is 123 * 456?", "tools": [CALCULATOR], "temperature": 0}
    (call,) = client.responses.create(**asked).output
    assert (call.type, call.name, call.arguments) == ("function_call", "calculator", '{"expression": "123 * 456"}')
    with client.responses.stream(**asked) as stream:
        streamed = stream.get_final_response()
    assert [(item.type, item.name, item.arguments) for item in streamed.output] == [(call.type, call.name, call.arguments)]

    history = [
        {"role": "user", "content": "What is the weather in Paris?"},
        {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"city": "Paris"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "18 degrees, cloudy"},
    ]
    response = client.responses.create(model=MODEL, input=history, tools=[WEATHER], temperature=0)
    assert response.output_text == "It is 18 degrees and cloudy in Paris."


def test_reasoning_is_an_item_of_its_own(client):
    asked = {"model": MODEL, "input": QUESTION, "reasoning": {"effort": "high"}, "temperature": 0}
    response = client.responses.create(**asked)
    assert [item.type for item in response.output] == ["reasoning", "message"]
    assert response.usage.output_tokens_details.reasoning_tokens > 0
    with client.responses.stream(**asked) as stream:
        streamed = stream.get_final_response()
    assert [item.type for item in streamed.output] == ["reasoning", "message"]
    assert streamed.output[0].content[0].text == response.output[0].content[0].text
    assert streamed.output_text == response.output_text


def test_a_budget_ends_the_reasoning(client):
    asked = {"model": MODEL, "input": QUESTION, "reasoning": {"effort": "high"}, "temperature": 0}
    free = client.responses.create(**asked)
    bounded = client.responses.create(**asked, extra_body={"thinking_token_budget": 4})
    assert [item.type for item in bounded.output] == ["reasoning", "message"]
    (free, short) = (answer.output[0].content[0].text for answer in (free, bounded))
    assert short and free.startswith(short) and len(short) < len(free)
    assert bounded.output_text


class Square(BaseModel):
    model_config = ConfigDict(extra="forbid")

    shape: Literal["square"]
    side: int = Field(ge=1, le=99)


def test_parse_gives_the_model(client):
    response = client.responses.parse(model=MODEL, input="What is OpenVINO?", text_format=Square, temperature=0)
    assert response.status == "completed"
    assert isinstance(response.output_parsed, Square)
    assert response.text.format.type == "json_schema"
