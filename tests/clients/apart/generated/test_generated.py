"""A client that PyPI `openapi-python-client` makes of the server's own OpenAPI document."""

import importlib
import json
import pathlib
import subprocess
import sys

import pytest

from conftest import MODEL

QUESTION = "What is OpenVINO?"
GENERATOR = pathlib.Path(sys.executable).with_name("openapi-python-client")


@pytest.fixture(scope="module")
def generated(server, tmp_path_factory):
    """Imports modules of the client."""
    folder = tmp_path_factory.mktemp("generated")
    document = folder / "openapi.json"
    document.write_text(server.get("/openapi.json")[1])
    command = [GENERATOR, "generate", "--path", document, "--meta", "none", "--output-path", folder / "graphmill_client"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    sys.path.insert(0, str(folder))
    yield lambda name: importlib.import_module(f"graphmill_client.{name}")
    sys.path.remove(str(folder))


@pytest.fixture
def client(server, generated):
    return generated("client").Client(base_url=server.url)


def question(models, content=QUESTION, **more):
    message = models.PostV3ChatCompletionsBodyMessagesItem(role=models.PostV3ChatCompletionsBodyMessagesItemRole.USER, content=content)
    model = models.PostV3ChatCompletionsBodyModel(MODEL)
    return models.PostV3ChatCompletionsBody(model=model, messages=[message], temperature=0, **{"max_tokens": 100} | more)


def test_a_chat(client, generated, answers):
    models, chat = generated("models"), generated("api.generation.post_v3_chat_completions")
    answer = chat.sync(client=client, body=question(models))
    assert isinstance(answer, models.ChatCompletion)
    expected = next(each["expected"] for each in answers if each["messages"] == [{"role": "user", "content": QUESTION}])
    assert answer.choices[0].message.content == expected
    parts = [models.TextPart(type_="text", text=QUESTION)]
    again = chat.sync(client=client, body=question(models, parts))
    assert again.choices[0].message.content == expected


def test_a_stream(client, generated):
    models, chat = generated("models"), generated("api.generation.post_v3_chat_completions")
    whole = chat.sync(client=client, body=question(models)).choices[0].message.content
    with client.get_httpx_client().stream(**chat._get_kwargs(body=question(models, stream=True))) as response:
        events = [line.removeprefix("data: ") for line in response.iter_lines() if line]
    assert events.pop() == "[DONE]"
    chunks = [models.ChatCompletionChunk.from_dict(json.loads(event)) for event in events]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == whole
    assert chunks[-1].choices[0].finish_reason == models.FinishReason.STOP


def test_an_embedding(client, generated):
    models, vectors = generated("models"), generated("api.vectors.post_v3_embeddings")
    model = models.PostV3EmbeddingsBodyModel("graphmill/tiny-embed")
    body = models.PostV3EmbeddingsBody(model=model, input_=["one", "two"])
    answer = vectors.sync(client=client, body=body)
    assert isinstance(answer, models.EmbeddingList)
    first, second = (each.embedding for each in answer.data)
    assert len(first) == len(second) > 0 and first != second


def test_an_error(client, generated):
    models, chat = generated("models"), generated("api.generation.post_v3_chat_completions")
    refused = chat.sync_detailed(client=client, body=question(models, max_tokens=0))
    assert refused.status_code == 400
    assert isinstance(refused.parsed, models.Error) and refused.parsed.error.param == "max_tokens"
