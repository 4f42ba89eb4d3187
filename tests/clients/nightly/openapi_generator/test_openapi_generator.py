"""Clients that `openapi-generator` makes of the server's own OpenAPI document."""

import importlib
import pathlib
import shutil
import subprocess
import sys

import pytest

from conftest import MODEL, ROOT

HERE = pathlib.Path(__file__).parent
GENERATOR = pathlib.Path(sys.executable).with_name("openapi-generator-cli")
ESBUILD = ROOT / "web" / "node_modules" / ".bin" / "esbuild"
QUESTION = "What is OpenVINO?"
PACKAGE = "graphmill_generated"


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def generate(server, tmp_path_factory):
    """Makes a client for a generator, and returns its folder."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "openapi.json").write_text(server.get("/openapi.json")[1])

    def generate(generator):
        client = folder / generator / "client"
        run(GENERATOR, "generate", "-i", folder / "openapi.json", "-g", generator, "-o", client, "--additional-properties", f"packageName={PACKAGE}")
        return client

    return generate


@pytest.fixture
def expected(answers):
    return next(each["expected"] for each in answers if each["messages"] == [{"role": "user", "content": QUESTION}])


def test_python(server, generate, expected):
    sys.path.insert(0, str(generate("python")))
    made = importlib.import_module(PACKAGE)
    api = made.ApiClient(made.Configuration(host=server.url))
    chats = made.GenerationApi(api)

    def question(content, **more):
        body = {"model": MODEL, "messages": [{"role": "user", "content": content}], "temperature": 0, "max_tokens": 100}
        return made.PostV3ChatCompletionsRequest.from_dict(body | more)

    def events(response, form):
        data = [line.removeprefix("data: ") for line in response.read().decode().splitlines() if line.startswith("data: ")]
        return [form.from_json(each) for each in data if each != "[DONE]"]

    for content in [QUESTION, [{"type": "text", "text": QUESTION}]]:
        answer = chats.post_v3_chat_completions(question(content))
        assert isinstance(answer, made.ChatCompletion)
        assert answer.choices[0].message.content == expected
    chunks = events(chats.post_v3_chat_completions_without_preload_content(question(QUESTION, stream=True)), made.ChatCompletionChunk)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == expected
    asked = made.PostV3EmbeddingsRequest.from_dict({"model": "graphmill/tiny-embed", "input": ["one", "two"]})
    assert len(made.VectorsApi(api).post_v3_embeddings(asked).data) == 2

    asked = made.PostV3ResponsesRequest.from_dict({"model": MODEL, "input": QUESTION, "temperature": 0, "stream": True})
    last = events(chats.post_v3_responses_without_preload_content(asked), made.ResponseStreamEvent)[-1].actual_instance
    assert last.response.output[0].actual_instance.content[0].text == expected
    asked = {"model": MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": QUESTION}], "temperature": 0, "stream": True}
    pieces = events(chats.post_v1_messages_without_preload_content(made.PostV1MessagesRequest.from_dict(asked)), made.MessageStreamEvent)
    deltas = [piece.actual_instance.delta for piece in pieces if isinstance(piece.actual_instance, made.MessageBlockDelta)]
    assert "".join(delta.text or "" for delta in deltas) == expected


def test_typescript(server, generate, expected):
    folder = generate("typescript-fetch").parent
    shutil.copy(HERE / "ask.ts", folder)
    run(ESBUILD, "ask.ts", "--bundle", "--platform=node", "--format=esm", "--outfile=ask.mjs", cwd=folder)
    assert run("node", "ask.mjs", server.url, MODEL, QUESTION, cwd=folder).splitlines() == [expected, expected, "2"]


def test_rust(server, generate, expected):
    folder = generate("rust").parent
    shutil.copytree(HERE / "ask", folder / "ask")
    assert run("cargo", "run", "--quiet", "--", server.url, MODEL, QUESTION, cwd=folder / "ask").splitlines() == [expected, expected, "2"]


@pytest.mark.parametrize("generator", ["go", "java"])
def test_others_are_generated(generate, generator):
    assert any(generate(generator).rglob("*mbedding*"))
