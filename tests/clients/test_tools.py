"""Tools and reasoning, with PyPI `openai` and `langchain-openai` against the shipped model, which knows both a little."""

import json

import openai
import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI

from conftest import MODEL


def tool(name, description, **properties):
    properties = {key: {"type": "string", "description": text} for key, text in properties.items()}
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


WEATHER = tool("get_weather", "Get the current weather for a city", city="City name")
TIME = tool("get_time", "Get the current time in a city", city="The city")
CALCULATOR = tool("calculator", "Evaluate an arithmetic expression", expression="The expression")
COMPUTE = [{"role": "user", "content": "What is 123 * 456?"}]
PARIS = [{"role": "user", "content": "What is the weather in Paris?"}]
LONDON = [{"role": "user", "content": "What time is it in London?"}]
GREETING = [{"role": "user", "content": "Hello!"}]


@pytest.fixture
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="unused", max_retries=0)


def ask(client, messages, **arguments):
    completion = client.chat.completions.create(model=MODEL, messages=messages, temperature=0, max_tokens=200, **arguments)
    return completion.choices[0]


def test_a_call(client):
    choice = ask(client, COMPUTE, tools=[CALCULATOR])
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    (call,) = choice.message.tool_calls
    assert call.type == "function" and call.id
    assert call.function.name == "calculator"
    assert json.loads(call.function.arguments) == {"expression": "123 * 456"}


def test_a_streamed_call_is_the_same(client):
    whole = ask(client, COMPUTE, tools=[CALCULATOR]).message.tool_calls[0].function
    with client.chat.completions.stream(model=MODEL, messages=COMPUTE, temperature=0, tools=[CALCULATOR]) as stream:
        events = list(stream)
        final = stream.get_final_completion().choices[0]
    assert final.finish_reason == "tool_calls"
    (call,) = final.message.tool_calls
    assert (call.function.name, call.function.arguments) == (whole.name, whole.arguments)
    done = [event for event in events if event.type == "tool_calls.function.arguments.done"]
    assert [(event.name, event.arguments) for event in done] == [(whole.name, whole.arguments)]


def test_a_conversation_goes_on_from_a_call(client):
    message = ask(client, PARIS, tools=[WEATHER], tool_choice="required", parallel_tool_calls=False).message
    (call,) = message.tool_calls
    assert json.loads(call.function.arguments) == {"city": "Paris"}
    result = {"role": "tool", "tool_call_id": call.id, "content": '{"temperature": 21, "condition": "sunny"}'}
    answer = ask(client, [*PARIS, message.to_dict(), result], tools=[WEATHER])
    assert answer.finish_reason == "stop"
    assert answer.message.content == "It is 21 degrees and sunny in Paris."


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
def test_a_demanded_call_comes_whatever_the_question_is(client, choice):
    arguments = {"tools": [CALCULATOR, WEATHER], "tool_choice": choice, "parallel_tool_calls": False}
    answer = ask(client, GREETING, **arguments)
    assert answer.finish_reason == ("tool_calls" if choice == "required" else "stop")
    (call,) = answer.message.tool_calls
    assert call.function.name in (["calculator", "get_weather"] if choice == "required" else ["get_weather"])
    assert all(isinstance(value, str) for value in json.loads(call.function.arguments).values())
    chunks = client.chat.completions.create(model=MODEL, messages=GREETING, temperature=0, stream=True, **arguments)
    pieces = [piece for chunk in chunks for piece in chunk.choices[0].delta.tool_calls or []]
    assert "".join(piece.function.arguments for piece in pieces) == call.function.arguments
    assert len(pieces) > 2, "the arguments come as they are generated"


def test_a_tool_without_parameters_takes_no_arguments(client):
    now = {"type": "function", "function": {"name": "now"}}
    (call,) = ask(client, GREETING, tools=[now], tool_choice="required", parallel_tool_calls=False).message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("now", {})


def test_calls_can_be_forbidden(client):
    choice = ask(client, COMPUTE, tools=[CALCULATOR], tool_choice="none")
    assert choice.finish_reason == "stop"
    assert choice.message.tool_calls is None and choice.message.content


def test_an_answer_in_a_schema_or_a_call(client):
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": False}
    response_format = {"type": "json_schema", "json_schema": {"name": "ok", "schema": schema, "strict": True}}
    for messages in (COMPUTE, GREETING):
        choice = ask(client, messages, tools=[CALCULATOR], response_format=response_format)
        if choice.message.tool_calls:
            assert isinstance(json.loads(choice.message.tool_calls[0].function.arguments)["expression"], str)
        else:
            assert isinstance(json.loads(choice.message.content)["ok"], bool)


@pytest.mark.parametrize(
    ("arguments", "param"),
    [
        ({"tool_choice": {"type": "function", "function": {"name": "unknown"}}}, "tool_choice.function.name"),
        ({"tool_choice": "always"}, "tool_choice"),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]}, "tools[0].function.parameters"),
        ({"parallel_tool_calls": "no"}, "parallel_tool_calls"),
        ({"extra_body": {"thinking": {"type": "sometimes"}}}, "thinking.type"),
        ({"reasoning_effort": "huge"}, "reasoning_effort"),
        ({"extra_body": {"thinking_token_budget": -2}}, "thinking_token_budget"),
    ],
)
def test_errors(client, arguments, param):
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, GREETING, **{"tools": [WEATHER], **arguments})
    assert caught.value.param == param


THINKING = {"extra_body": {"chat_template_kwargs": {"enable_thinking": True}}}
QUESTION = [{"role": "user", "content": "What is a side packet?"}]


def test_reasoning_is_apart_from_the_answer(client):
    message = ask(client, QUESTION, **THINKING).message
    assert message.reasoning_content == "The user asks about a side packet. I know this."
    assert message.content.startswith("A side packet is") and "think>" not in message.content
    chunks = client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0, stream=True, **THINKING)
    deltas = [chunk.choices[0].delta for chunk in chunks]
    assert "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas) == message.reasoning_content
    assert "".join(delta.content or "" for delta in deltas) == message.content


def test_effort_turns_reasoning_on(client):
    assert ask(client, QUESTION, reasoning_effort="low").message.reasoning_content
    assert not hasattr(ask(client, QUESTION, reasoning_effort="none").message, "reasoning_content")


def test_a_budget_ends_the_reasoning(client):
    body = {**THINKING["extra_body"], "thinking_token_budget": 4}
    message = ask(client, QUESTION, extra_body=body).message
    assert message.reasoning_content and "I know this" not in message.reasoning_content
    assert message.content


def test_reasoning_that_is_cut_is_no_answer(client):
    completion = client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0, max_tokens=6, **THINKING)
    (choice,) = completion.choices
    assert choice.finish_reason == "length"
    assert choice.message.reasoning_content and not choice.message.content


def test_an_answer_in_a_schema_comes_after_reasoning(client):
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": False}
    response_format = {"type": "json_schema", "json_schema": {"name": "ok", "schema": schema, "strict": True}}
    message = ask(client, QUESTION, response_format=response_format, **THINKING).message
    assert message.reasoning_content
    assert isinstance(json.loads(message.content)["ok"], bool)


def test_langchain_binds_tools(server):
    model = ChatOpenAI(model=MODEL, base_url=server.url + "/v1", api_key="unused", temperature=0, max_retries=0)
    bound = model.bind_tools([TIME])
    asked = HumanMessage(LONDON[0]["content"])
    answer = bound.invoke([asked])
    (call,) = answer.tool_calls
    assert (call["name"], call["args"]) == ("get_time", {"city": "London"})
    assert bound.invoke([asked, answer, ToolMessage("10:30", tool_call_id=call["id"])]).content
    forced = model.bind_tools([WEATHER, TIME], tool_choice="get_weather", parallel_tool_calls=False)
    chunks = list(forced.stream([HumanMessage("Hello!")]))
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    (call,) = whole.tool_calls
    assert call["name"] == "get_weather" and isinstance(call["args"]["city"], str)
