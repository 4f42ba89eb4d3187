"""Writes the averaged weights of a checkpoint as model.gguf (Q8_0, with the tokenizer and the chat template) and mmproj.gguf (F16)."""

import argparse
import json
from pathlib import Path

import gguf
import torch
from gguf import GGMLQuantizationType, LlamaFileType, TokenType

import chat
import pictures
import tokenizer as bpe
from model import MEAN, STD, Config


def tensor_name(name: str) -> str:
    """The GGUF name of a parameter of model.TinyVision."""
    part, rest = name.split(".", 1)
    if part == "text":
        return rest
    if rest.startswith(("up.", "down.")):
        return rest.replace("up.", "mm.0.").replace("down.", "mm.2.")
    return "v." + ("position_embd.weight" if rest == "position_embd" else rest)


def gguf_shape(name: str, weight: torch.Tensor, config: Config):
    """The patches' matrix is a convolution in GGUF; everything else is as it is here."""
    return weight.view(-1, 3, config.patch, config.patch) if name == "v.patch_embd.weight" else weight


def write_general(writer, kind, file_type, description):
    writer.add_type(kind)
    writer.add_name("tiny-vision")
    writer.add_basename("tiny-vision")
    writer.add_description(description)
    writer.add_organization("Graphmill")
    writer.add_license("apache-2.0")
    writer.add_file_type(file_type)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)


def write_text(writer, config: Config):
    writer.add_context_length(config.context)
    writer.add_embedding_length(config.width)
    writer.add_block_count(config.layers)
    writer.add_feed_forward_length(config.ffn)
    writer.add_head_count(config.heads)
    writer.add_head_count_kv(config.heads)
    writer.add_rope_dimension_count(config.width // config.heads)
    writer.add_rope_freq_base(config.rope_base)
    writer.add_layer_norm_rms_eps(config.norm_eps)
    writer.add_vocab_size(config.vocab)


def write_vision(writer, config: Config):
    writer.add_clip_has_vision_encoder(True)
    writer.add_clip_projector_type("mlp")
    writer.add_vision_use_gelu(True)
    writer.add_vision_image_size(pictures.SEEN)
    writer.add_vision_patch_size(config.patch)
    writer.add_vision_image_mean([MEAN] * 3)
    writer.add_vision_image_std([STD] * 3)
    writer.add_vision_embedding_length(config.vision_width)
    writer.add_vision_feed_forward_length(config.vision_ffn)
    writer.add_vision_block_count(config.vision_layers)
    writer.add_vision_head_count(config.vision_heads)
    writer.add_vision_attention_layernorm_eps(config.norm_eps)
    writer.add_vision_projection_dim(config.width)
    # Without it, llama.cpp leaves out the last layer, as LLaVA does.
    writer.add_array("clip.vision.feature_layer", [config.vision_layers])


def write_tokenizer(writer, tokenizer):
    data = json.loads(tokenizer.to_str())
    tokens = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([int(TokenType.CONTROL if t in bpe.CONTROL else TokenType.NORMAL) for t in tokens])
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in data["model"]["merges"]])
    end_of_text, end_of_turn = tokenizer.token_to_id("<|endoftext|>"), tokenizer.token_to_id("<|im_end|>")
    writer.add_bos_token_id(end_of_text)
    writer.add_eos_token_id(end_of_turn)
    writer.add_eot_token_id(end_of_turn)
    writer.add_pad_token_id(end_of_text)
    writer.add_add_bos_token(False)
    writer.add_add_eos_token(False)
    writer.add_chat_template(chat.TEMPLATE)


def write_tensors(writer, weights, matrices: GGMLQuantizationType, config: Config):
    """Matrices of the blocks and of the vocabulary in the type `matrices`, the rest in F32."""
    for name, weight in weights:
        array = gguf_shape(name, weight.float(), config).numpy()
        exact = array.ndim != 2 or name == "v.position_embd.weight"
        kind = GGMLQuantizationType.F32 if exact else matrices
        writer.add_tensor(name, array if exact else gguf.quants.quantize(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def export(weights, config: Config, tokenizer, folder: Path):
    """Writes both files of the weights, which have the names of model.TinyVision's parameters."""
    named = [(part.split(".")[0], tensor_name(part), weight) for part, weight in weights.items()]
    writer = gguf.GGUFWriter(folder / "model.gguf", "llama")
    write_general(writer, "model", LlamaFileType.MOSTLY_Q8_0, "A very small model that answers questions about pictures of shapes and digits")
    write_text(writer, config)
    write_tokenizer(writer, tokenizer)
    write_tensors(writer, [(n, w) for part, n, w in named if part == "text"], GGMLQuantizationType.Q8_0, config)
    writer = gguf.GGUFWriter(folder / "mmproj.gguf", "clip")
    write_general(writer, "mmproj", LlamaFileType.MOSTLY_F16, "The encoder of pictures of tiny-vision")
    write_vision(writer, config)
    write_tensors(writer, [(n, w) for part, n, w in named if part == "vision"], GGMLQuantizationType.F16, config)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", default="build/checkpoint.pt")
    parser.add_argument("--tokenizer", default="build/tokenizer.json")
    parser.add_argument("--out", default=".", help="the folder for both files")
    arguments = parser.parse_args()
    state = torch.load(arguments.checkpoint)
    export(state["average"], Config(**state["config"]), bpe.load(arguments.tokenizer), Path(arguments.out))
    print(f"step {state['step']}, {state['pictures']} pictures -> {arguments.out}")


if __name__ == "__main__":
    main()
