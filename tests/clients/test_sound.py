"""Sound through the `openai` package. No model here understands it: a projector with random weights shows that it is heard."""

import base64
import io
import json
import math
import struct
import wave

import numpy
import openai
import pytest
from conftest import ROOT, Server
from gguf import GGUFWriter

DEMO = ROOT / "demos" / "tiny_chat" / "model.gguf"
MODEL = "hears"
# Numbers of an embedding of the demo's model, and of one inside of the projector.
WIDTH, INSIDE = 192, 16
# Pitches of a moment, moments of half a minute, and positions that these become.
PITCHES, MOMENTS, POSITIONS = 16, 1500, 15


def projector(path):
    """A projector as Ultravox's, with random weights."""
    writer = GGUFWriter(path, "clip")
    writer.add_bool("clip.has_audio_encoder", True)
    writer.add_string("clip.projector_type", "ultravox")
    numbers = {
        "embedding_length": INSIDE,
        "feed_forward_length": 24,
        "block_count": 1,
        "projection_dim": WIDTH,
        "attention.head_count": 2,
        "num_mel_bins": PITCHES,
        "projector.stack_factor": MOMENTS // POSITIONS,
    }
    for name, number in numbers.items():
        writer.add_uint32(f"clip.audio.{name}", number)
    writer.add_float32("clip.audio.attention.layer_norm_epsilon", 1e-5)
    random = numpy.random.default_rng(1)
    stacked = MOMENTS // POSITIONS * INSIDE
    shapes = {
        "a.conv1d.1.weight": (INSIDE, PITCHES, 3),
        "a.conv1d.1.bias": (INSIDE, 1),
        "a.conv1d.2.weight": (INSIDE, INSIDE, 3),
        "a.conv1d.2.bias": (INSIDE, 1),
        "a.position_embd.weight": (MOMENTS, INSIDE),
        "mm.a.norm_pre.weight": (stacked,),
        "mm.a.mlp.1.weight": (2 * INSIDE, stacked),
        "mm.a.norm_mid.weight": (INSIDE,),
        "mm.a.mlp.2.weight": (WIDTH, INSIDE),
        "a.blk.0.ffn_up.weight": (24, INSIDE),
        "a.blk.0.ffn_up.bias": (24,),
        "a.blk.0.ffn_down.weight": (INSIDE, 24),
        "a.blk.0.ffn_down.bias": (INSIDE,),
    }
    for part in ("attn_q", "attn_k", "attn_v", "attn_out"):
        shapes[f"a.blk.0.{part}.weight"] = (INSIDE, INSIDE)
        if part != "attn_k":
            shapes[f"a.blk.0.{part}.bias"] = (INSIDE,)
    for part in ("ln1", "ln2"):
        shapes |= {f"a.blk.0.{part}.weight": (INSIDE,), f"a.blk.0.{part}.bias": (INSIDE,)}
    for name, shape in shapes.items():
        numbers = random.normal(0, 1 / math.sqrt(shape[-1]), shape)
        if len(shape) == 1 and name.endswith("weight"):
            numbers = numpy.ones(shape)
        writer.add_tensor(name, numbers.astype(numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tone(pitch, rate=16_000):
    """Half a second of a tone as a WAV file."""
    samples = [int(12_000 * math.sin(2 * math.pi * pitch * at / rate)) for at in range(rate // 2)]
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setparams((1, 2, rate, 0, "NONE", ""))
        written.writeframes(struct.pack(f"<{len(samples)}h", *samples))
    return file.getvalue()


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound")
    projector(folder / "mmproj.gguf")
    graph = (ROOT / "graphs" / "chat" / "graph.pbtxt").read_text()
    options = f'models_path: "{DEMO}" mmproj: "{folder / "mmproj.gguf"}" max_context: 512'
    changed = [line if "models_path:" not in line else options for line in graph.splitlines()]
    (folder / "graph.pbtxt").write_text("\n".join(changed))
    config = {"model_config_list": [], "mediapipe_config_list": [{"name": MODEL, "base_path": ".", "graph_path": "graph.pbtxt"}]}
    (folder / "config.json").write_text(json.dumps(config))
    server = Server(folder / "config.json", folder / "log.txt")
    server.wait_until(server.is_ready, "ready")
    yield openai.OpenAI(base_url=f"{server.url}/v1", api_key="none")
    server.stop()


def ask(client, file, **more):
    part = {"type": "input_audio", "input_audio": {"data": base64.b64encode(file).decode(), "format": "wav"}}
    messages = [{"role": "user", "content": [part, {"type": "text", "text": "What is this?"}]}]
    return client.chat.completions.create(model=MODEL, temperature=0, max_tokens=8, messages=messages, **more)


def test_a_chat_has_sound(client):
    answer = ask(client, tone(440))
    assert answer.usage.prompt_tokens_details.audio_tokens == POSITIONS
    again = ask(client, tone(440))
    assert again.choices[0].message.content == answer.choices[0].message.content
    assert again.usage.prompt_tokens_details.cached_tokens > POSITIONS
    chances = [ask(client, tone(pitch), logprobs=True).choices[0].logprobs.content[0].logprob for pitch in (440, 2000)]
    assert chances[0] != chances[1]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in ask(client, tone(440), stream=True) if chunk.choices)
    assert text == answer.choices[0].message.content


def test_what_is_no_sound_is_refused(client):
    with pytest.raises(openai.BadRequestError) as refused:
        ask(client, b"no sound")
    assert refused.value.body["param"] == "messages[0].content[0]" and refused.value.body["code"] == "invalid_audio"


def transcribe(client, **more):
    file = ("tone.wav", tone(440))
    return client.audio.transcriptions.create(model=MODEL, file=file, temperature=0, extra_body={"max_tokens": 8}, **more)


def test_a_file_is_transcribed(client):
    answer = transcribe(client)
    assert answer.usage.input_token_details.audio_tokens == POSITIONS
    assert answer.usage.output_tokens > 0
    assert transcribe(client, response_format="text") == answer.text
    events = list(transcribe(client, stream=True))
    assert "".join(event.delta for event in events[:-1]) == answer.text
    assert {event.type for event in events[:-1]} == {"transcript.text.delta"}
    assert (events[-1].type, events[-1].text) == ("transcript.text.done", answer.text)


def test_a_transcript_has_no_times(client):
    with pytest.raises(openai.BadRequestError) as refused:
        transcribe(client, response_format="verbose_json", timestamp_granularities=["word"])
    assert refused.value.body["code"] == "unsupported_parameter"
