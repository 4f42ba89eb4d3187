"""Clients of TGI, TEI, LightLLM and LMDeploy: PyPI `huggingface_hub`, and what others send, as it is."""

import json
import subprocess
import sys

import pytest
import requests
from huggingface_hub import InferenceClient
from huggingface_hub.errors import ValidationError

from conftest import MODEL

PROMPT = "What is a packet?"


def test_hub_generates(serve_one):
    server = serve_one(MODEL)
    client = InferenceClient(server.url)
    whole = client.text_generation(PROMPT, max_new_tokens=12)
    assert "".join(client.text_generation(PROMPT, max_new_tokens=12, stream=True)) == whole
    details = client.text_generation(PROMPT, max_new_tokens=12, details=True, seed=5, do_sample=True).details
    assert details.generated_tokens == 12 and details.seed == 5
    *_, last = client.text_generation(PROMPT, max_new_tokens=12, details=True, stream=True)
    assert last.generated_text == whole and last.details.finish_reason == "length"
    held = client.text_generation(PROMPT, max_new_tokens=9, grammar={"type": "regex", "value": "[0-9]{4}"})
    assert held.isdigit() and len(held) == 4
    with pytest.raises(ValidationError):
        client.text_generation(PROMPT, watermark=True)
    status, info = server.get("/info")
    assert status == 200 and json.loads(info)["model_id"] == MODEL


def test_hub_is_understood_where_one_generates_and_one_embeds(server):
    """Where a name is left out, the path says what is meant: this server has one graph that embeds, beside others."""
    vector = InferenceClient(server.url + "/embed").feature_extraction(PROMPT)
    assert vector.shape == (1, 128)
    assert InferenceClient(server.url).feature_extraction([PROMPT]).shape == (1, 128)


def test_hub_chats_without_a_name(serve_one):
    answer = InferenceClient(serve_one(MODEL).url).chat_completion([{"role": "user", "content": PROMPT}], max_tokens=5)
    assert answer.choices[0].message.content and answer.model == MODEL


def test_hub_embeds(serve_one):
    client = InferenceClient(serve_one("graphmill/tiny-embed").url)
    vectors = client.feature_extraction([PROMPT, "A packet is data."], normalize=True)
    assert vectors.shape == (2, 128) and abs((vectors[0] ** 2).sum() - 1) < 1e-4
    assert client.feature_extraction(PROMPT).shape == (1, 128)
    near, far = client.sentence_similarity(PROMPT, [PROMPT, "The soup needs salt."])
    assert abs(near - 1) < 1e-4 and far < near


# Of a lecture on servers of language models.
LIGHTLLM = """
import time
import requests
import json

url = 'http://localhost:8080/generate'
headers = {'Content-Type': 'application/json'}
data = {
    'inputs': 'Funniest joke ever:',
    "parameters": {
        'do_sample': False,
        'ignore_eos': False,
        'max_new_tokens': 1024,
    }
}

response = requests.post(url, headers=headers, data=json.dumps(data))
if response.status_code == 200:
    print(response.json())
else:
    print('Error:', response.status_code, response.text)
"""


def test_a_snippet_of_lightllm(serve_one):
    server = serve_one(MODEL, generate_form="lightllm")
    snippet = LIGHTLLM.replace("http://localhost:8080", server.url)
    printed = subprocess.run([sys.executable, "-c", snippet], capture_output=True, text=True, timeout=120, check=True).stdout
    assert printed.startswith("{'generated_text': ['"), printed


def interactive(url, prompt, **fields):
    """The request of `chat_interactive_v1` of LMDeploy's client, which reads lines of JSON."""
    body = {
        "prompt": prompt, "session_id": -1, "interactive_mode": False, "stream": False, "stop": None, "request_output_len": 512,
        "top_p": 0.8, "top_k": 40, "temperature": 0.8, "repetition_penalty": 1.0, "ignore_eos": False, "kwargs": {},
    }  # fmt: skip
    body |= fields
    headers = {"content-type": "application/json"}
    answer = requests.post(f"{url}/v1/chat/interactive", headers=headers, json=body, stream=body["stream"], timeout=60)
    lines = answer.iter_lines(chunk_size=8192, decode_unicode=False, delimiter=b"\n")
    return [json.loads(line) for line in lines if line]


def test_the_client_of_lmdeploy(serve_one):
    server = serve_one(MODEL)
    messages = ["hi, what's your name?", "who developed you?", "Tell me more about your developers", "Summarize the information we've talked so far"]
    before = 0
    for message in messages:
        (answer,) = interactive(server.url, message, session_id=1, interactive_mode=True, request_output_len=8)
        assert answer["history_tokens"] == before and answer["tokens"] <= 8 and answer["finish_reason"] in ("stop", "length")
        before = answer["history_tokens"] + answer["input_tokens"] + answer["tokens"]
    lines = interactive(server.url, "Hi", session_id=2, interactive_mode=True, stream=True, request_output_len=8)
    assert lines[-1]["finish_reason"] and lines[0]["text"]
    interactive(server.url, "", session_id=1, request_output_len=0)
    (answer,) = interactive(server.url, messages[0], session_id=1, interactive_mode=True, request_output_len=8)
    assert answer["history_tokens"] == 0
    body = {"model": MODEL, "messages": "Say this is a test!", "session_id": -1, "kwargs": {}, "max_tokens": 8}
    assert requests.post(f"{server.url}/v1/chat/completions", json=body, timeout=60).json()["choices"]
    encoded = requests.post(f"{server.url}/v1/encode", json={"input": "hi", "do_preprocess": False, "add_bos": True}, timeout=60).json()
    assert len(encoded["input_ids"]) == encoded["length"] > 0
