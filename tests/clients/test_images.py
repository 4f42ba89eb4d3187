"""Pictures through the `openai` and `anthropic` packages, with the demo that looks at them."""

import base64
import concurrent.futures
import json
import random
import re
import struct
import zlib

import anthropic
import httpx
import openai
import pytest
from conftest import ROOT, Server, node_tests

DEMO = ROOT / "demos" / "tiny_vision"
MODEL = "graphmill/tiny-vision"


def picture(name):
    return base64.b64encode((DEMO / name).read_bytes()).decode()


def url(name):
    return f"data:image/png;base64,{picture(name)}"


# The demo's graph, and the one that has a node for each step of an image.
APART = "images-apart"


@pytest.fixture(scope="module")
def url_of_demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    config = json.loads((DEMO / "config.json").read_text())
    graphs = config["mediapipe_config_list"]
    graphs[0]["base_path"] = str(DEMO)
    graphs.append({"name": APART, "base_path": str(ROOT / "graphs" / "images")})
    (folder / "config.json").write_text(json.dumps(config))
    server = Server(folder / "config.json", folder / "log.txt")
    server.wait_until(server.is_ready, "ready")
    yield server.url
    server.stop()


@pytest.fixture(scope="module")
def client(url_of_demo):
    return openai.OpenAI(base_url=f"{url_of_demo}/v3", api_key="none")


def message(pinned):
    parts = [{"type": "text", "text": pinned["question"]}]
    if pinned.get("picture"):
        parts.insert(0, {"type": "image_url", "image_url": {"url": url(pinned["picture"])}})
    return {"role": "user", "content": parts}


@pytest.mark.parametrize("model", [MODEL, APART])
@pytest.mark.parametrize("pinned", json.loads((DEMO / "answers.json").read_text()), ids=lambda pinned: pinned["question"])
def test_the_demo_answers_about_its_pictures(client, pinned, model):
    answer = client.chat.completions.create(model=model, temperature=0, messages=[message(pinned)])
    assert answer.choices[0].message.content == pinned["expected"]


def test_npm_ai_asks_about_the_pictures(url_of_demo):
    node_tests("pictures.mjs", GRAPHMILL_URL=url_of_demo, GRAPHMILL_MODEL=MODEL, GRAPHMILL_PINNED=str(DEMO / "answers.json"))


def test_an_answer_about_a_picture_is_streamed_and_its_tokens_are_counted(client):
    pinned = json.loads((DEMO / "answers.json").read_text())[0]
    chunks = client.chat.completions.create(
        model=MODEL, temperature=0, messages=[message(pinned)], stream=True, stream_options={"include_usage": True}
    )
    text, usage = "", None
    for chunk in chunks:
        text += (chunk.choices and chunk.choices[0].delta.content) or ""
        usage = chunk.usage or usage
    assert text == pinned["expected"]
    assert usage.prompt_tokens > 36


def test_responses_and_messages_take_pictures(client, url_of_demo):
    question = "What shape is this?"
    answer = client.responses.create(
        model=MODEL,
        temperature=0,
        input=[
            {
                "role": "user",
                "content": [
                    {"type": "input_image", "image_url": url("samples/circle.png"), "detail": "auto"},
                    {"type": "input_text", "text": question},
                ],
            }
        ],
    )
    assert answer.output_text == "A red circle."
    messages = anthropic.Anthropic(base_url=f"{url_of_demo}", api_key="none").messages
    source = {"type": "base64", "media_type": "image/png", "data": picture("samples/circle.png")}
    answer = messages.create(
        model=MODEL,
        max_tokens=20,
        extra_body={"temperature": 0},
        messages=[{"role": "user", "content": [{"type": "image", "source": source}, {"type": "text", "text": question}]}],
    )
    assert answer.content[0].text == "A red circle."


def test_what_is_no_picture_is_refused(client):
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": [part]}])
    assert refused.value.body["param"] == "messages[0].content[0]"


def png_chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(seed, side=48):
    """A picture of noise, another one for each seed."""
    dice = random.Random(seed)
    lines = b"".join(b"\0" + dice.randbytes(3 * side) for _ in range(side))
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", head) + png_chunk(b"IDAT", zlib.compress(lines, 1)) + png_chunk(b"IEND", b"")


def demo_graph():
    """The demo's graph, for another folder."""
    text = (DEMO / "graph.pbtxt").read_text()
    return text.replace('"model.gguf"', f'"{DEMO}/model.gguf"').replace('"mmproj.gguf"', f'"{DEMO}/mmproj.gguf"')


def resident_bytes(server):
    with open(f"/proc/{server.process.pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+) kB", status.read())[1]) << 10


def test_a_thousand_pictures_leave_memory_within_its_limits(tmp_path):
    image_cache, prefix_cache, slack = 2_000_000, 10_000_000, 48 << 20
    options = f"max_context: 256 image_cache_size: {image_cache / 1e9} prefix_cache_size: {prefix_cache / 1e9}"
    (tmp_path / "graph.pbtxt").write_text(demo_graph().replace("cache_size: 1", f"cache_size: 1 {options}"))
    config = {"model_config_list": [], "mediapipe_config_list": [{"name": MODEL, "base_path": ".", "graph_path": "graph.pbtxt"}]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    server = Server(tmp_path / "config.json", tmp_path / "log.txt")
    try:
        server.wait_until(server.is_ready, "ready")
        asked = openai.OpenAI(base_url=f"{server.url}/v3", api_key="none").chat.completions

        def ask(seed):
            picture = f"data:image/png;base64,{base64.b64encode(png(seed)).decode()}"
            parts = [{"type": "image_url", "image_url": {"url": picture}}, {"type": "text", "text": "What is this?"}]
            asked.create(model=MODEL, max_tokens=1, messages=[{"role": "user", "content": parts}])

        with concurrent.futures.ThreadPoolExecutor(8) as clients:
            list(clients.map(ask, range(200)))
            before = resident_bytes(server)
            list(clients.map(ask, range(200, 1000)))
        images = server.engine()["image_cache"]
        assert images["encoded"] == 1000
        assert images["bytes"] <= 1.1 * image_cache
        assert images["images"] < 200
        assert resident_bytes(server) - before < image_cache + prefix_cache + slack
    finally:
        server.stop()


def bombs():
    """Small files that say of themselves that they are large, by format and part."""
    small = png(0, 8)
    profile = b"p\0\0" + zlib.compress(bytes(500_000_000), 9)
    yield "PNG profile", small[:33] + png_chunk(b"iCCP", profile) + small[33:]
    head = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    yield "PNG size", small[:8] + png_chunk(b"IHDR", head) + small[33:]
    canvas = b"VP8X" + struct.pack("<I", 10) + bytes([0, 0, 0, 0, 7, 0, 0, 7, 0, 0])
    frame = b"VP8 " + struct.pack("<I", 10) + bytes([0, 0, 0, 0x9D, 1, 0x2A, 0xFF, 0x3F, 0xFF, 0x3F])
    yield "WebP frame", b"RIFF" + struct.pack("<I", 4 + len(canvas + frame)) + b"WEBP" + canvas + frame
    screen = b"GIF89a" + struct.pack("<HHBBB", 8, 8, 0x80, 0, 0) + bytes([0, 0, 0, 255, 255, 255])
    yield "GIF frame", screen + b"," + struct.pack("<HHHHB", 0, 0, 65535, 65535, 0) + bytes([2, 2, 0x4C, 1, 0, 0x3B])
    yield "BMP size", b"BM" + struct.pack("<IIIIiiHHIIIIII", 58, 0, 54, 40, 60_000, 60_000, 1, 24, 0, 0, 0, 0, 0, 0) + bytes(4)


DECODER = """
input_stream: "file"
output_stream: "image"
node { calculator: "ImageDecodeCalculator" input_stream: "FILE:file" output_stream: "IMAGE:image" }
"""


def test_eight_bombs_at_once_take_little_memory(tmp_path):
    (tmp_path / "decoder").mkdir()
    (tmp_path / "decoder" / "graph.pbtxt").write_text(DECODER)
    # Huge pages take memory in the background.
    options = "cache_size: 1 plugin_config: '{\"huge_pages\": false}'"
    (tmp_path / "graph.pbtxt").write_text(demo_graph().replace("cache_size: 1", options))
    graphs = [{"name": MODEL, "base_path": ".", "graph_path": "graph.pbtxt"}, {"name": "decoder", "base_path": "decoder"}]
    (tmp_path / "config.json").write_text(json.dumps({"model_config_list": [], "mediapipe_config_list": graphs}))
    server = Server(tmp_path / "config.json", tmp_path / "log.txt")
    try:
        server.wait_until(server.is_ready, "ready")

        def ask(file):
            picture = f"data:image/png;base64,{base64.b64encode(file).decode()}"
            parts = [{"type": "image_url", "image_url": {"url": picture}}, {"type": "text", "text": "What is this?"}]
            body = {"model": MODEL, "max_tokens": 1, "messages": [{"role": "user", "content": parts}]}
            return httpx.post(f"{server.url}/v3/chat/completions", json=body, timeout=60)

        def decode(file):
            text = base64.b64encode(file).decode()
            body = {"inputs": [{"name": "file", "datatype": "BYTES", "shape": [1], "data": [text]}]}
            return httpx.post(f"{server.url}/v2/models/decoder/infer", json=body, timeout=60)

        with concurrent.futures.ThreadPoolExecutor(8) as clients:
            for name, file in bombs():
                for answer in clients.map(ask, [file] * 8):
                    assert answer.status_code in (400, 413, 503), (name, answer.text)
                    assert answer.json()["error"]["param"] == "messages[0].content[0]", (name, answer.text)
                for answer in clients.map(decode, [file] * 8):
                    assert answer.status_code in (400, 413, 503), (name, answer.text)
        with open(f"/proc/{server.process.pid}/status") as status:
            most = int(re.search(r"VmHWM:\s+(\d+) kB", status.read())[1]) << 10
        assert most < 300 << 20
    finally:
        server.stop()
