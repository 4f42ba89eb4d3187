"""PyPI `openllm-client`, and other clients of servers of one model, which name none or one that is not served."""

import asyncio

import openllm_client
import pytest
import requests

from conftest import MODEL, ROOT

PROMPT = "Funniest joke ever:"


@pytest.fixture
def server(start_server):
    running = start_server(ROOT / "config.json", flags=["--any_model", MODEL])
    running.wait_until(running.is_ready, "ready")
    return running


@pytest.fixture
def client(server):
    return openllm_client.HTTPClient(server.url, max_retries=0)


def test_a_query(client):
    assert client.health()
    answer = client.query(PROMPT, max_new_tokens=8, temperature=0.0)
    assert answer.prompt == PROMPT and answer.finished
    (output,) = answer.outputs
    assert output.finish_reason == "length" and len(output.token_ids) == 8 and output.text
    assert output.cumulative_logprob < 0


def test_a_stream_equals_a_query(client):
    options = {"max_new_tokens": 12, "temperature": 0.0}
    whole = client.generate(PROMPT, **options).outputs[0].text
    assert "".join(chunk.text for chunk in client.generate_stream(PROMPT, **options)) == whole
    stopped = client.generate(PROMPT, stop=whole[5:8], **options).outputs[0]
    assert stopped.text == whole[: whole.index(whole[5:8])] and stopped.finish_reason == "stop"


def test_async(server):
    async def ask():
        client = openllm_client.AsyncHTTPClient(server.url, max_retries=0)
        return await client.generate(PROMPT, max_new_tokens=4, temperature=0.0)

    assert asyncio.run(ask()).outputs[0].finish_reason == "length"


def test_what_is_refused(client):
    with pytest.raises(ValueError, match="400"):
        client.query(PROMPT, num_beams=4)


def test_a_model_name_of_mlc_llm(server):
    payload = {"model": "lama-30b", "messages": [{"role": "user", "content": "Funniest joke ever:"}], "stream": False}
    r = requests.post(f"{server.url}/v1/chat/completions", json=payload, timeout=60)
    assert r.json()["choices"][0]["message"]["content"]
    assert r.json()["model"] == MODEL
