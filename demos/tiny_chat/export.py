"""Writes the averaged weights of a checkpoint, the tokenizer and the chat template into one GGUF (Q8_0)."""

import argparse
import json

import gguf
import torch
from gguf import GGMLQuantizationType, LlamaFileType, TokenType

import chat
import tokenizer as bpe
from model import Config

BLOCK_NAMES = {
    "attn_norm": "attn_norm", "q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output",
    "ffn_norm": "ffn_norm", "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down",
}


def tensor_name(name: str) -> str:
    """The GGUF name of a parameter of model.TinyChat."""
    if name == "embedding.weight":
        return "token_embd.weight"
    if name == "norm.weight":
        return "output_norm.weight"
    _, layer, part, _ = name.split(".")
    return f"blk.{layer}.{BLOCK_NAMES[part]}.weight"


def write_metadata(writer, config: Config):
    writer.add_type("model")
    writer.add_name("tiny-chat")
    writer.add_basename("tiny-chat")
    writer.add_size_label("3M")
    writer.add_description("A very small assistant that answers questions about Graphmill, dataflow graphs and model serving")
    writer.add_organization("Graphmill")
    writer.add_license("apache-2.0")
    writer.add_languages(["en"])
    writer.add_tags(["text-generation", "chat"])
    writer.add_context_length(config.context)
    writer.add_embedding_length(config.width)
    writer.add_block_count(config.layers)
    writer.add_feed_forward_length(config.ffn)
    writer.add_head_count(config.heads)
    writer.add_head_count_kv(config.kv_heads)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_base)
    writer.add_layer_norm_rms_eps(config.norm_eps)
    writer.add_vocab_size(config.vocab)
    writer.add_file_type(LlamaFileType.MOSTLY_Q8_0)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)


def write_tokenizer(writer, tokenizer):
    data = json.loads(tokenizer.to_str())
    size = tokenizer.get_vocab_size()
    kinds = {t: TokenType.CONTROL for t in bpe.CONTROL} | {t: TokenType.USER_DEFINED for t in bpe.USER_DEFINED}
    tokens = [tokenizer.id_to_token(i) for i in range(size)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([int(kinds.get(t, TokenType.NORMAL)) for t in tokens])
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in data["model"]["merges"]])
    end_of_text, end_of_turn = tokenizer.token_to_id("<|endoftext|>"), tokenizer.token_to_id("<|im_end|>")
    writer.add_bos_token_id(end_of_text)
    writer.add_eos_token_id(end_of_turn)
    writer.add_eot_token_id(end_of_turn)
    writer.add_pad_token_id(end_of_text)
    writer.add_add_bos_token(False)
    writer.add_add_eos_token(False)
    writer.add_chat_template(chat.TEMPLATE)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", default="build/checkpoint.pt")
    parser.add_argument("--tokenizer", default="build/tokenizer.json")
    parser.add_argument("--out", default="model.gguf")
    arguments = parser.parse_args()
    state = torch.load(arguments.checkpoint)
    config = Config(**state["config"])
    writer = gguf.GGUFWriter(arguments.out, "llama")
    write_metadata(writer, config)
    write_tokenizer(writer, bpe.load(arguments.tokenizer))
    for name, weight in state["average"].items():
        array = weight.float().numpy()
        kind = GGMLQuantizationType.Q8_0 if array.ndim == 2 else GGMLQuantizationType.F32
        data = gguf.quants.quantize(array, kind) if array.ndim == 2 else array
        writer.add_tensor(tensor_name(name), data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"step {state['step']}, {state['tokens']} tokens -> {arguments.out}")


if __name__ == "__main__":
    main()
