"""Makes a tiny model with random weights of each architecture that llama.cpp knows.

llama.cpp itself says what belongs into a file: it names the first number or tensor that it misses, and the shape that it
expects. So a model is made by loading it again and again, with what was missing the time before.
"""

import json
import pathlib
import re
import subprocess

import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter

from shapes import ARCHITECTURES, ASKED, BASE, EAGLE3, KNOBS, MTP, MTP_TENSORS, UNASKED, WIDTH, eagle3, fill

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = ROOT / "target" / "release" / "graphmill"
VOCABULARY = ROOT / "demos" / "tiny_chat" / "model.gguf"
# Most times that a model is loaded.
MAX_TRIES = 600

GRAPH = """
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {{
  calculator: "HttpLLMCalculator"
  input_stream: "LOOPBACK:loopback"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  output_stream: "LOOPBACK:loopback"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
  input_stream_info {{ tag_index: "LOOPBACK:0" back_edge: true }}
  node_options {{
    [type.googleapis.com/mediapipe.LLMCalculatorOptions] {{
      models_path: "{model}"
      max_num_batched_tokens: 64
      max_num_seqs: 4
      max_context: 512
      enable_prefix_caching: {sharing}{draft}
      plugin_config: '{config}'
    }}
  }}
  input_stream_handler {{
    input_stream_handler: "SyncSetInputStreamHandler"
    options {{ [mediapipe.SyncSetInputStreamHandlerOptions.ext] {{ sync_set {{ tag_index: "LOOPBACK:0" }} }} }}
  }}
}}
"""


class NotMade(Exception):
    """Why there is no model of an architecture."""


class Model:
    """A model on its way: the numbers and the tensors that its file has so far."""

    def __init__(self, architecture, vocabulary):
        self.architecture = base(architecture)
        self.vocabulary = vocabulary
        self.numbers = BASE | ARCHITECTURES[architecture]
        unasked = UNASKED.get(architecture, {}).items()
        self.tensors = {f"blk.{layer}.{name}": shape for name, (shape, layers) in unasked for layer in layers}
        self.drafts = architecture.endswith(MTP)
        if self.drafts:
            self.tensors |= MTP_TENSORS | {"output.weight": [WIDTH, len(vocabulary["tokenizer.ggml.tokens"].contents())]}

    def write(self, path):
        writer = GGUFWriter(path, self.architecture)
        for name, value in self.numbers.items():
            # Numbers of one activation are named without the architecture.
            add(writer, name if name.startswith("xielu.") else f"{self.architecture}.{name}", value)
        tokens = 0
        for name, field in self.vocabulary.items():
            kind = field.types[0]
            if name == "tokenizer.ggml.tokens":
                tokens = len(field.contents())
            if kind == GGUFValueType.ARRAY:
                writer.add_key_value(name, field.contents(), kind, sub_type=field.types[1])
            else:
                writer.add_key_value(name, field.contents(), kind)
        writer.add_vocab_size(tokens)
        for name, shape in self.tensors.items():
            numbers = fill(name, shape, drafts=self.drafts)
            # The CPU kernels multiply by experts of 16 bits, with what follows them in the graph.
            if name.endswith("_exps.weight") and len(shape) == 3:
                numbers = numbers.astype(np.float16)
            writer.add_tensor(name, numbers)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    def learn(self, said, known):
        """Adds what llama.cpp missed. `known` has shapes of tensors by what they are called in a layer."""
        if missing := re.search(r"key not found in model: [\w-]+?\.([\w.]+)", said):
            name = missing[1]
            if name not in ASKED or name in self.numbers:
                raise NotMade(f"wants `{name}`")
            value = ASKED[name]
            is_list = "array key" in said
            self.numbers[name] = [value] * self.numbers["block_count"] if is_list and not isinstance(value, list) else value
        elif missing := re.search(r"tensor '([^']+)' not found|missing tensor '([^']+)'", said):
            name = missing[1] or missing[2]
            self.tensors[name] = known.get(part(name), [1])
        elif wrong := re.search(r"tensor '([^']+)' has wrong shape; expected ([\d, ]+?), got", said):
            shape = [int(length) for length in wrong[2].split(",")]
            if self.tensors.get(wrong[1]) == shape:
                raise NotMade(said)
            self.tensors[wrong[1]] = known[part(wrong[1])] = shape
        else:
            raise NotMade(said.strip()[-600:])


def base(architecture):
    """An architecture without what drafts for it."""
    return architecture.removesuffix(MTP).removesuffix(EAGLE3)


def write_eagle3(path, architecture, vocabulary):
    """Writes an EAGLE3 model for that of an architecture."""
    made = Model(base(architecture), vocabulary)
    made.numbers, made.tensors = eagle3(made.numbers)
    made.architecture = "eagle3"
    made.write(path)


def add(writer, name, value):
    if isinstance(value, list):
        writer.add_array(name, value)
    elif isinstance(value, bool):
        writer.add_bool(name, value)
    elif isinstance(value, float):
        writer.add_float32(name, value)
    else:
        writer.add_uint32(name, value)


def part(name):
    """A tensor's name without its layer."""
    return re.sub(r"^blk\.\d+\.", "", name)


def read_vocabulary():
    fields = GGUFReader(VOCABULARY).fields
    return {name: field for name, field in fields.items() if name.startswith("tokenizer.") and "template" not in name}


def load(graph):
    """What is said of a graph's model; nothing if it loads."""
    done = subprocess.run([BINARY, "describe", graph], capture_output=True, text=True, timeout=120)
    if done.returncode < 0:
        raise NotMade(f"llama.cpp ended the process: {done.stderr.strip()[-600:]}")
    return done.stderr + done.stdout if done.returncode else ""


def make(architecture, folder, vocabulary):
    """Writes `model.gguf` and graphs for it into a folder, which has it already if it was made before."""
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / "model.gguf"
    knobs = KNOBS.get(base(architecture), {})
    plain = json.dumps(knobs)
    source, draft = ({"prompt_lookup": True}, "")
    if architecture.endswith(MTP):
        source = {"mtp": True}
    elif architecture.endswith(EAGLE3):
        write_eagle3(folder / "eagle3.gguf", architecture, vocabulary)
        source, draft = ({}, 'draft_models_path: "eagle3.gguf"')
    # All drafts are computed, right or wrong.
    drafting = json.dumps(knobs | source | {"draft_control": False})

    def write_graph(name, model, sharing, config, draft=""):
        text = GRAPH.format(model=model.name, sharing=sharing, config=config, draft=f" {draft}")
        (folder / f"{name}.pbtxt").write_text(text)

    write_graph("plain", model, "false", plain)
    write_graph("sharing", model, "true", plain)
    write_graph("drafting", model, "true", drafting, draft)
    if model.exists():
        return
    made = Model(architecture, vocabulary)
    unfinished = folder / "unfinished.gguf"
    trying = folder / "trying.pbtxt"
    # llama.cpp asks for the tensors of MTP layers when they are to draft, and then for no others in a file that has none.
    stages = [plain, drafting] if architecture.endswith(MTP) else [plain]
    known = {}
    for _ in range(MAX_TRIES):
        write_graph("trying", unfinished, "true", stages[0])
        made.write(unfinished)
        said = load(trying)
        if not said:
            stages.pop(0)
            if not stages:
                unfinished.rename(model)
                trying.unlink()
                return
        else:
            made.learn(said, known)
    raise NotMade(f"not within {MAX_TRIES} tries")
