"""Writes the trained models as GGUF: embed.gguf with a mean, rerank.gguf with a head that ranks.

The table of tokens is Q8_0. The matrices are F32: multiplying with quantized ones rounds what they are multiplied with, and a difference in
the last bit, as there is between a text alone and among others, can become one in the fourth digit.
"""

import argparse
from pathlib import Path

import gguf
import torch
from gguf import GGMLQuantizationType, LlamaFileType, PoolingType, TokenType

import tokenizer as wordpiece
from model import Config

BLOCK_NAMES = {
    "q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output", "attn_norm": "attn_output_norm",
    "up": "ffn_up", "down": "ffn_down", "out_norm": "layer_output_norm",
}
NAMES = {
    "tokens.weight": "token_embd.weight", "positions.weight": "position_embd.weight", "types": "token_types.weight",
    "embed_norm.weight": "token_embd_norm.weight", "embed_norm.bias": "token_embd_norm.bias",
    "head.weight": "cls.weight", "head.bias": "cls.bias", "out.weight": "cls.output.weight", "out.bias": "cls.output.bias",
}


def tensor_name(name: str) -> str:
    """The GGUF name of a parameter of model.TinyBert or model.Ranker."""
    name = name.removeprefix("bert.")
    if name in NAMES:
        return NAMES[name]
    _, layer, part, kind = name.split(".")
    return f"blk.{layer}.{BLOCK_NAMES[part]}.{kind}"


def write_tokenizer(writer, tokenizer):
    """Words begin with U+2581 in GGUF, and what goes on inside of one has no mark."""
    kinds, tokens = [], []
    for i in range(tokenizer.get_vocab_size()):
        token = tokenizer.id_to_token(i)
        special = token in wordpiece.SPECIAL
        kinds.append(int(TokenType.CONTROL if special else TokenType.NORMAL))
        tokens.append(token if special else token[2:] if token.startswith("##") else "\u2581" + token)
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_type_count(1)
    ids = {t: tokenizer.token_to_id(t) for t in wordpiece.SPECIAL}
    writer.add_bos_token_id(ids["[CLS]"])
    writer.add_unk_token_id(ids["[UNK]"])
    writer.add_sep_token_id(ids["[SEP]"])
    writer.add_pad_token_id(ids["[PAD]"])
    writer.add_mask_token_id(ids["[MASK]"])


def write(path, name, description, pooling, state, tokenizer):
    config = Config(**state["config"])
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_type("model")
    writer.add_name(name)
    writer.add_basename(name)
    writer.add_description(description)
    writer.add_organization("Graphmill")
    writer.add_license("apache-2.0")
    writer.add_languages(["en"])
    writer.add_context_length(config.context)
    writer.add_embedding_length(config.width)
    writer.add_block_count(config.layers)
    writer.add_feed_forward_length(config.ffn)
    writer.add_head_count(config.heads)
    writer.add_layer_norm_eps(config.norm_eps)
    writer.add_causal_attention(False)
    writer.add_pooling_type(pooling)
    if pooling == PoolingType.RANK:
        writer.add_classifier_output_labels(["relevance"])
        writer.add_uint32("bert.classifier.pooling_type", PoolingType.MEAN)
    writer.add_file_type(LlamaFileType.ALL_F32)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    write_tokenizer(writer, tokenizer)
    for parameter, tensor in state["weights"].items():
        data = tensor.float().numpy()
        name = tensor_name(parameter)
        if name == "token_embd.weight":
            writer.add_tensor(name, gguf.quants.quantize(data, GGMLQuantizationType.Q8_0), raw_dtype=GGMLQuantizationType.Q8_0)
        else:
            writer.add_tensor(name, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{path}: {Path(path).stat().st_size / 1e6:.2f} MB")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--out", default=".")
    arguments = parser.parse_args()
    build, out = Path(arguments.build), Path(arguments.out)
    tokenizer = wordpiece.load(build / "tokenizer.json")
    for kind, name, pooling, description in [
        ("embed", "tiny-embed", PoolingType.MEAN, "A very small model that makes vectors of texts about Graphmill, dataflow graphs and model serving"),
        ("rerank", "tiny-rerank", PoolingType.RANK, "A very small model that says how well a text answers a question"),
    ]:
        if (build / f"{kind}.pt").exists():
            write(out / f"{kind}.gguf", name, description, pooling, torch.load(build / f"{kind}.pt"), tokenizer)


if __name__ == "__main__":
    main()
