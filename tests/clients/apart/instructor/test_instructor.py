"""PyPI `instructor`: answers as pydantic models, through the fields for structured output."""

import asyncio
from typing import Literal

import instructor
import openai
from pydantic import BaseModel, ConfigDict, Field

from conftest import MODEL


class Square(BaseModel):
    model_config = ConfigDict(extra="forbid")  # of properties that are not named, the small model would think of ever more

    shape: Literal["square"]
    side: int = Field(ge=1, le=99)


FIELDS = {"model": MODEL, "messages": [{"role": "user", "content": "What is OpenVINO?"}], "temperature": 0, "max_retries": 1}


def client(server, kind):
    return kind(base_url=server.url + "/v1", api_key="unused", max_retries=0)


def test_a_model_is_the_answer(server):
    patched = instructor.from_openai(client(server, openai.OpenAI), mode=instructor.Mode.JSON_SCHEMA)
    square = patched.chat.completions.create(response_model=Square, **FIELDS)
    assert isinstance(square, Square) and square.shape == "square"


def test_a_model_is_streamed_part_by_part(server):
    patched = instructor.from_openai(client(server, openai.OpenAI), mode=instructor.Mode.JSON_SCHEMA)
    parts = list(patched.chat.completions.create_partial(response_model=Square, **FIELDS))
    whole = patched.chat.completions.create(response_model=Square, **FIELDS)
    assert parts[-1].model_dump() == whole.model_dump()


def test_async(server):
    async def ask():
        patched = instructor.from_openai(client(server, openai.AsyncOpenAI), mode=instructor.Mode.JSON_SCHEMA)
        return await patched.chat.completions.create(response_model=Square, **FIELDS)

    assert asyncio.run(ask()).shape == "square"
