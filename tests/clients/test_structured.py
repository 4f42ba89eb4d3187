"""Structured output through clients that we did not write: `.parse()` and `.stream()` of PyPI `openai` with pydantic, and the
fields of OVMS, vLLM and llama-server as `extra_body`."""

import enum
import json
import re
from typing import Annotated, Literal, Optional, Union

import openai
import pytest
from pydantic import BaseModel, ConfigDict, Field

from conftest import MODEL

QUESTION = [{"role": "user", "content": "What is OpenVINO?"}]


class Size(str, enum.Enum):
    SMALL = "small"
    LARGE = "large"


class Closed(BaseModel):
    """Of properties that are not named, the small model would think of ever more."""

    model_config = ConfigDict(extra="forbid")


class Square(Closed):
    shape: Literal["square"]
    side: int = Field(ge=1, le=99)


class Circle(Closed):
    shape: Literal["circle"]
    radius: int = Field(gt=0, lt=10)


class Drawing(Closed):
    title: str = Field(max_length=12)
    size: Size
    parts: list[Union[Square, Circle]] = Field(min_length=1, max_length=2)
    beside: Optional[Circle] = None
    code: Annotated[str, Field(pattern=r"^[A-Z]{2}-\d{3}$")]


@pytest.fixture(params=["/v3", "/v1"])
def client(server, request):
    return openai.OpenAI(base_url=server.url + request.param, api_key="unused", max_retries=0)


def ask(client, seed=1, **fields):
    return client.chat.completions.create(model=MODEL, messages=QUESTION, seed=seed, max_tokens=300, **fields)


def schema(model):
    return {"type": "json_schema", "json_schema": {"name": "drawing", "schema": model.model_json_schema()}}


def test_parse_gives_the_model(client):
    parsed = 0
    for seed in range(5):
        try:
            completion = client.chat.completions.parse(
                model=MODEL, messages=QUESTION, response_format=Drawing, seed=seed, max_tokens=400
            )
        except openai.LengthFinishReasonError:
            continue
        (choice,) = completion.choices
        assert isinstance(choice.message.parsed, Drawing)
        assert choice.finish_reason == "stop"
        parsed += 1
    assert parsed > 0


def test_stream_helper_gives_the_model(client):
    fields = {"model": MODEL, "messages": QUESTION, "response_format": Square, "temperature": 0}
    with client.chat.completions.stream(**fields) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta"]
        completion = stream.get_final_completion()
    whole = client.chat.completions.parse(**fields)
    assert completion.choices[0].message.parsed == whole.choices[0].message.parsed
    assert "".join(deltas) == whole.choices[0].message.content


def test_several_choices_each_match(client):
    completion = ask(client, n=4, response_format=schema(Square))
    assert [Square.model_validate_json(choice.message.content).shape for choice in completion.choices] == ["square"] * 4


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "fields, pattern",
    [
        ({"guided_choice": ["yes", "no", "perhaps"]}, r"yes|no|perhaps"),
        ({"guided_regex": r"[0-9]{3}-[0-9]{4}"}, r"[0-9]{3}-[0-9]{4}"),
        ({"guided_grammar": 'root ::= "(" root ")" | [a-c]'}, r"\(*[a-c]\)*"),
        ({"guided_grammar": 'start: /[a-c]+/ "."'}, r"[a-c]+\."),
        ({"grammar": 'root ::= "yes" | "no"'}, r"yes|no"),
        ({"guided_json": json.dumps({"type": "integer", "minimum": 3, "maximum": 12})}, r"[3-9]|1[0-2]"),
        ({"json_schema": {"enum": ["a", "b"]}}, r'"[ab]"'),
        ({"structured_outputs": {"choice": ["left", "right"]}}, r"left|right"),
        ({"structured_outputs": {"regex": "[a-f]{8}"}}, r"[a-f]{8}"),
    ],
)
def test_fields_of_other_servers(client, fields, pattern, stream):
    answer = ask(client, extra_body=fields, stream=stream, seed=3)
    if stream:
        chunks = list(answer)
        content = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        finish = chunks[-1].choices[0].finish_reason
    else:
        content, finish = answer.choices[0].message.content, answer.choices[0].finish_reason
    assert finish == "length" or re.fullmatch(pattern, content)
    completion = client.completions.create(model=MODEL, prompt="One,", max_tokens=200, seed=3, extra_body=fields)
    (choice,) = completion.choices
    assert choice.finish_reason == "length" or re.fullmatch(pattern, choice.text)


def test_any_object(client):
    finished = 0
    for seed in range(4):
        (choice,) = ask(client, seed=seed, response_format={"type": "json_object"}).choices
        if choice.finish_reason == "stop":
            assert isinstance(json.loads(choice.message.content), dict)
            finished += 1
    assert finished > 0


@pytest.mark.parametrize(
    "fields, param",
    [
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "strin"}}}}, "response_format.json_schema.schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {"not": {}}}}}, "response_format.json_schema.schema"),
        ({"guided_regex": "(?=a)"}, "guided_regex"),
        ({"guided_grammar": "root ::= missing"}, "guided_grammar"),
        ({"guided_json": {"type": "integer"}, "guided_regex": "a"}, "guided_regex"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_enforced_is_refused(client, fields, param, stream):
    with pytest.raises(openai.BadRequestError) as refused:
        list(ask(client, extra_body=fields, stream=stream))
    assert refused.value.param == param
