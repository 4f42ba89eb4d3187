"""PyPI `ollama` against the server: chats, tools, reasoning, forms, prompts, vectors and lists, and the requests that Open WebUI and
editors begin with."""

import asyncio
import base64
import json
import urllib.request

import ollama
import pytest
from conftest import MODEL, ROOT, Server
from pydantic import BaseModel, ConfigDict, Field
from test_openai import answer
from test_tools import COMPUTE

EMBED = "graphmill/tiny-embed"
QUESTION = "What is OpenVINO?"
MESSAGES = [{"role": "user", "content": QUESTION}]
GREEDY = {"temperature": 0}
# Every option of the client.
OPTIONS = {
    "num_keep": 5, "seed": 42, "num_predict": 100, "top_k": 20, "top_p": 0.9, "min_p": 0.0, "typical_p": 0.7, "repeat_last_n": 33,
    "temperature": 0.8, "repeat_penalty": 1.2, "presence_penalty": 1.5, "frequency_penalty": 1.0, "mirostat": 1, "mirostat_tau": 0.8,
    "mirostat_eta": 0.6, "penalize_newline": True, "stop": ["\n", "user:"], "numa": False, "num_ctx": 1024, "num_batch": 2, "num_gpu": 1,
    "main_gpu": 0, "low_vram": False, "vocab_only": False, "use_mmap": True, "use_mlock": False, "num_thread": 8,
}  # fmt: skip


@pytest.fixture
def client(server):
    return ollama.Client(host=server.url)


def post(server, path, body):
    """POSTs JSON: the status, and the objects of the answer."""
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return response.status, [json.loads(line) for line in response.read().splitlines()]


def test_chat(client, answers):
    whole = client.chat(MODEL, MESSAGES, options=GREEDY)
    assert whole.message.content == answer(answers, QUESTION)
    assert (whole.message.role, whole.done, whole.done_reason, whole.model) == ("assistant", True, "stop", MODEL)
    assert whole.prompt_eval_count > 0 and whole.eval_count > 0
    assert 0 < whole.load_duration + whole.prompt_eval_duration + whole.eval_duration <= whole.total_duration
    parts = list(client.chat(f"{MODEL}:latest", MESSAGES, options=GREEDY, stream=True))
    assert "".join(part.message.content for part in parts) == whole.message.content
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]
    assert (parts[-1].done_reason, parts[-1].eval_count) == ("stop", whole.eval_count)


def test_async_chat(server, answers):
    async def texts():
        client = ollama.AsyncClient(host=server.url)
        return [part.message.content async for part in await client.chat(MODEL, MESSAGES, options=GREEDY, stream=True)]

    assert "".join(asyncio.run(texts())) == answer(answers, QUESTION)


def test_options(client):
    short = client.chat(MODEL, MESSAGES, options={**GREEDY, "num_predict": 3})
    assert (short.done_reason, short.eval_count) == ("length", 3)
    stopped = client.chat(MODEL, MESSAGES, options={**GREEDY, "stop": [" toolkit"]})
    assert (stopped.message.content, stopped.done_reason) == ("OpenVINO is an open source", "stop")
    same = [client.generate(MODEL, QUESTION, options=OPTIONS).response for _ in range(2)]
    assert same[0] == same[1]


def calculator(expression: str) -> str:
    """Evaluate an arithmetic expression

    Args:
        expression: The expression
    """
    left, right = expression.split(" * ")
    return str(int(left) * int(right))


@pytest.mark.parametrize("stream", [False, True])
def test_tools(client, stream):
    messages = list(COMPUTE)
    asked = {"tools": [calculator], "options": GREEDY}
    if stream:
        parts = list(client.chat(MODEL, messages, stream=True, **asked))
        calls = [call for part in parts for call in part.message.tool_calls or []]
        messages.append({"role": "assistant", "content": "", "tool_calls": calls})
    else:
        message = client.chat(MODEL, messages, **asked).message
        calls = message.tool_calls
        messages.append(message)
    (call,) = calls
    assert (call.function.name, call.function.arguments) == ("calculator", {"expression": "123 * 456"})
    messages.append({"role": "tool", "tool_name": call.function.name, "content": calculator(**call.function.arguments)})
    assert "56088" in client.chat(MODEL, messages, **asked).message.content


def test_think(client):
    thoughtful = client.chat(MODEL, MESSAGES, think=True, options=GREEDY).message
    assert thoughtful.thinking and thoughtful.content and "<think>" not in thoughtful.content
    parts = list(client.chat(MODEL, MESSAGES, think=True, options=GREEDY, stream=True))
    assert "".join(part.message.thinking or "" for part in parts) == thoughtful.thinking
    assert "".join(part.message.content for part in parts) == thoughtful.content
    assert client.chat(MODEL, MESSAGES, think=False, options=GREEDY).message.thinking is None
    assert client.generate(MODEL, QUESTION, think=True, options=GREEDY).thinking == thoughtful.thinking


class Fact(BaseModel):
    """Of properties that are not named, the small model would think of ever more."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(max_length=20)
    free: bool


def test_format(client):
    short = {**GREEDY, "num_predict": 200}
    text = client.chat(MODEL, MESSAGES, format=Fact.model_json_schema(), options=short).message.content
    assert Fact.model_validate_json(text)
    assert client.generate(MODEL, QUESTION, format="json", options=short).response.lstrip().startswith("{")


def test_generate(client, answers):
    assert client.generate(MODEL, QUESTION, options=GREEDY).response == answer(answers, QUESTION)
    parts = client.generate(MODEL, QUESTION, options=GREEDY, stream=True)
    assert "".join(part.response for part in parts) == answer(answers, QUESTION)
    assert client.generate(MODEL, QUESTION, system="Answer in one word.", options=GREEDY).response == "Toolkit."
    rendered = f"<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n"
    assert client.generate(MODEL, rendered, raw=True, options=GREEDY).response == answer(answers, QUESTION)
    assert client.generate(MODEL).done_reason == "load"


def test_embed(client):
    one = client.embed(EMBED, "bread")
    many = client.embed(EMBED, ["bread", "a train"])
    assert list(one.embeddings[0]) == pytest.approx(list(many.embeddings[0]), abs=1e-5)
    assert many.prompt_eval_count > one.prompt_eval_count > 0 and many.total_duration > 0
    assert list(client.embeddings(EMBED, "bread").embedding) == pytest.approx(list(one.embeddings[0]), abs=1e-5)
    assert len(client.embed(EMBED, "bread", dimensions=16).embeddings[0]) == 16


def test_lists(client):
    listed = {model.model: model for model in client.list().models}
    assert {f"{MODEL}:latest", f"{EMBED}:latest"} <= set(listed)
    model = listed[f"{MODEL}:latest"]
    assert model.size > 0 and model.modified_at and len(model.digest) == 64
    assert (model.details.format, bool(model.details.family), bool(model.details.parameter_size)) == ("gguf", True, True)
    shown = client.show(f"{MODEL}:latest")
    assert {"completion", "tools", "thinking"} <= set(shown.capabilities)
    assert shown.modelinfo[f"{shown.modelinfo['general.architecture']}.context_length"] > 0
    assert client.show(EMBED).capabilities == ["embedding"]
    running = {model.model: model for model in client.ps().models}
    assert running[f"{MODEL}:latest"].size > 0 and running[f"{MODEL}:latest"].expires_at


def test_pull_and_refusals(client):
    assert client.pull(MODEL).status == "success"
    assert [progress.status for progress in client.pull(MODEL, stream=True)] == ["success"]
    for ask, status in [
        (lambda: client.pull("llama3.2"), 404),
        (lambda: list(client.pull("llama3.2", stream=True)), 404),
        (lambda: client.chat("llama3.2", MESSAGES), 404),
        (lambda: client.show("llama3.2"), 404),
        (lambda: client.create("mine", from_=MODEL), 501),
        (lambda: client.copy(MODEL, "mine"), 501),
        (lambda: client.delete(MODEL), 501),
        (lambda: client.push(MODEL), 501),
        (lambda: client.chat(MODEL, MESSAGES, options={"top_p": 2}), 400),
    ]:
        with pytest.raises(ollama.ResponseError) as refused:
            ask()
        assert refused.value.status_code == status and refused.value.error


def test_images(tmp_path):
    demo = ROOT / "demos" / "tiny_vision"
    server = Server(demo / "config.json", tmp_path / "log.txt")
    try:
        server.wait_until(server.is_ready, "ready")
        client = ollama.Client(host=server.url)
        model = client.list().models[0].model
        assert "vision" in client.show(model).capabilities
        pinned = next(one for one in json.loads((demo / "answers.json").read_text()) if one.get("picture"))
        message = {"role": "user", "content": pinned["question"], "images": [demo / pinned["picture"]]}
        assert client.chat(model, [message], options=GREEDY).message.content == pinned["expected"]
        image = base64.b64encode((demo / pinned["picture"]).read_bytes()).decode()
        assert client.generate(model, pinned["question"], images=[image], options=GREEDY).response == pinned["expected"]
    finally:
        server.stop()


def test_requests_of_a_chat_interface(server):
    """What Open WebUI asks: the version, the lists, and a chat with all fields that it has, most of them empty."""
    assert json.loads(server.get("/api/version")[1])["version"]
    tags = json.loads(server.get("/api/tags")[1])["models"]
    assert all({"name", "model", "size", "digest", "details"} <= set(model) for model in tags)
    assert all({"model", "expires_at"} <= set(model) for model in json.loads(server.get("/api/ps")[1])["models"])
    body = {
        "model": f"{MODEL}:latest", "messages": MESSAGES, "options": {"temperature": 0, "num_ctx": 2048}, "stream": True, "format": None,
        "template": None, "keep_alive": None, "tools": None, "think": None,
    }  # fmt: skip
    status, lines = post(server, "/api/chat", body)
    assert status == 200 and lines[-1]["done"] is True and lines[-1]["total_duration"] > 0
    status, lines = post(server, "/api/embed", {"model": f"{EMBED}:latest", "input": ["a", "b"], "truncate": True})
    assert status == 200 and len(lines[0]["embeddings"]) == 2


def test_requests_of_editors(server):
    """What Zed and Copilot ask: the list, what each model can do, and chats with calls that have ids, with `keep_alive` and `num_ctx`."""
    for model in json.loads(server.get("/api/tags")[1])["models"]:
        _, (shown,) = post(server, "/api/show", {"model": model["name"]})
        assert isinstance(shown["capabilities"], list) and shown["model_info"]["general.architecture"]
    call = {"id": "call_1", "function": {"index": 0, "name": "get_weather", "arguments": {"city": "Paris"}}}
    parameters = {"type": "object", "properties": {"city": {"type": "string", "description": "City name"}}, "required": ["city"]}
    weather = {"name": "get_weather", "description": "Get the current weather for a city", "parameters": parameters}
    body = {
        "model": MODEL, "stream": True, "keep_alive": -1, "think": False, "options": {"temperature": 0, "num_ctx": 8192, "stop": []},
        "tools": [{"type": "function", "function": weather}],
        "messages": [
            {"role": "user", "content": "What is the weather in Paris?", "images": None},
            {"role": "assistant", "content": "", "tool_calls": [call], "thinking": None},
            {"role": "tool", "tool_name": "get_weather", "content": '{"temperature": 21, "condition": "sunny"}'},
        ],
    }  # fmt: skip
    _, lines = post(server, "/api/chat", body)
    assert "".join(line["message"]["content"] for line in lines) == "It is 21 degrees and sunny in Paris."
    # A completion of code, as Continue asks for it, of a model that fills no gaps.
    with pytest.raises(urllib.error.HTTPError) as refused:
        post(server, "/api/generate", {"model": MODEL, "prompt": "def f(", "suffix": ")", "raw": True, "keep_alive": 1800, "options": {}})
    assert "suffix" in json.loads(refused.value.read())["error"]
