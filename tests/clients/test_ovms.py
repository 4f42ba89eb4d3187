"""The requests of OpenVINO Model Server's documentation, with our models' names: curl's as plain HTTP, and OpenAI's client."""

import json
import urllib.error
import urllib.request

import openai
import pytest

from conftest import MODEL


def send(server, path, body=None, method=None):
    """The (status, headers, text) of a request."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(server.url + path, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.headers, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def ask(server, path, body):
    status, _, text = send(server, path, body)
    assert status == 200, text
    return json.loads(text)


CHAT = {
    "model": MODEL,
    "max_tokens": 30,
    "stream": False,
    "temperature": 0,
    "messages": [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": "What is OpenVINO?"},
    ],
}


@pytest.mark.parametrize("prefix", ["/v3", "/v1", "/v3/v1"])
def test_chat_completions(server, prefix):
    answer = ask(server, prefix + "/chat/completions", CHAT)
    (choice,) = answer["choices"]
    assert choice["message"]["role"] == "assistant" and choice["message"]["content"]
    assert choice["index"] == 0 and choice["finish_reason"] in ("stop", "length")
    assert answer["object"] == "chat.completion" and answer["model"] == MODEL
    usage = answer["usage"]
    assert usage["prompt_tokens"] + usage["completion_tokens"] == usage["total_tokens"]


def test_chat_completions_of_the_documented_fields(server):
    """Each field that the page of the endpoint lists as supported, with a value of its type."""
    fields = {
        "stop": ["\n\n\n"],
        "include_stop_str_in_output": False,
        "ignore_eos": False,
        "logprobs": True,
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": 40,
        "min_p": 0.05,
        "repetition_penalty": 1.1,
        "frequency_penalty": 0.2,
        "presence_penalty": 0.1,
        "seed": 1,
        "n": 1,
        "max_completion_tokens": 20,
        "skip_special_tokens": True,
        "chat_template_kwargs": {"enable_thinking": False},
        "response_format": {"type": "text"},
    }
    answer = ask(server, "/v3/chat/completions", CHAT | fields)
    assert answer["choices"][0]["logprobs"]["content"]


def test_chat_completions_as_a_stream(server):
    status, headers, text = send(server, "/v3/chat/completions", CHAT | {"stream": True, "stream_options": {"include_usage": True}})
    assert status == 200 and headers["content-type"].startswith("text/event-stream")
    events = text.strip().split("\n\n")
    assert events[-1] == "data: [DONE]"
    chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-1]]
    assert all(chunk["object"] == "chat.completion.chunk" for chunk in chunks)
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] > 0


@pytest.mark.parametrize("path", ["/v3", "/v1"])
def test_the_openai_client(server, path):
    client = openai.OpenAI(base_url=server.url + path, api_key="unused")
    stream = client.chat.completions.create(model=MODEL, messages=CHAT["messages"], max_tokens=10, stream=True)
    assert any(chunk.choices[0].delta.content for chunk in stream)
    answer = client.completions.create(model=MODEL, prompt="Say this is a test", max_tokens=10, temperature=0)
    assert answer.choices[0].finish_reason in ("stop", "length")


def test_completions(server):
    body = {"model": MODEL, "max_tokens": 30, "prompt": "What is OpenVINO?", "stream": False, "echo": True, "logprobs": 1}
    answer = ask(server, "/v3/completions", body)
    assert answer["object"] == "text_completion"
    assert answer["choices"][0]["text"].startswith("What is OpenVINO?")


def test_responses(server):
    body = {"model": MODEL, "max_output_tokens": 30, "input": "What is OpenVINO?", "stream": False}
    answer = ask(server, "/v3/responses", body)
    (message,) = [item for item in answer["output"] if item["type"] == "message"]
    assert message["content"][0]["type"] == "output_text"


def test_tokenize(server):
    answer = ask(server, "/v3/tokenize", {"model": MODEL, "text": "hello world"})
    assert answer["tokens"] and all(isinstance(token, int) for token in answer["tokens"])
    several = ask(server, "/v3/tokenize", {"model": MODEL, "text": ["hello", "world"], "max_length": 2, "pad_to_max_length": True})
    assert [len(tokens) for tokens in several["tokens"]] == [2, 2]


def test_embeddings(server):
    body = {"input": ["hello", "world"], "encoding_format": "float"}
    answer = ask(server, "/v3/embeddings", body | {"model": "graphmill/tiny-embed"})
    assert [item["index"] for item in answer["data"]] == [0, 1]
    assert all(item["object"] == "embedding" for item in answer["data"])


def test_rerank(server):
    body = {"query": "welcome", "documents": ["good morning", "farewell"], "top_n": 1, "return_documents": True}
    answer = ask(server, "/v3/rerank", body | {"model": "graphmill/tiny-rerank"})
    (best,) = answer["results"]
    assert best["document"]["text"] in body["documents"] and 0 <= best["relevance_score"] <= 1


def test_models(server):
    listed = json.loads(send(server, "/v3/models")[2])
    assert listed["object"] == "list" and MODEL in [model["id"] for model in listed["data"]]
    for path in ("/v3/models/", "/v1/models/"):
        one = json.loads(send(server, path + MODEL)[2])
        assert one["id"] == MODEL and one["object"] == "model"


def test_config_status_and_reload(server):
    version = {"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": "OK"}}
    expected = {"model_version_status": [version]}
    assert json.loads(send(server, "/v1/config")[2])[MODEL] == expected
    status, _, text = send(server, "/v1/config/reload", method="POST")
    assert status in (200, 201) and json.loads(text)[MODEL] == expected


def test_metrics(server):
    ask(server, "/v3/chat/completions", CHAT)
    text = send(server, "/metrics")[2]
    for name in ("ovms_current_graphs", "ovms_requests_accepted", "ovms_requests_rejected", "ovms_graph_error"):
        assert f'{name}{{' in text, name


def test_health(server):
    for path in ("/v2/health/live", "/v2/health/ready", f"/v2/models/{MODEL}/ready"):
        assert send(server, path)[0] == 200, path


@pytest.mark.parametrize(
    "path",
    ["/v3/images/generations", "/v3/images/edits", "/v3/audio/speech", "/v3/audio/translations"],
)
def test_what_models_of_text_do_not_do_is_a_404(server, path):
    status, _, text = send(server, path, {"model": MODEL, "prompt": "a cat", "input": "hello"})
    assert status == 404 and json.loads(text)["error"]["code"] == "unknown_endpoint", text


def test_tensorflow_serving_is_for_graphs_of_tensors(server):
    status, _, text = send(server, f"/v1/models/{MODEL}:predict", {"instances": [1.0]})
    assert status == 400 and "takes HTTP requests, not tensors" in json.loads(text)["error"], text


def test_an_image_is_refused_by_name(server):
    content = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]
    status, _, text = send(server, "/v3/chat/completions", CHAT | {"messages": [{"role": "user", "content": content}]})
    assert status == 400 and "the model takes no images" in text, text
