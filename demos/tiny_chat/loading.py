"""Reads a GGUF written by export.py back into the PyTorch model and its tokenizer, so that what is checked is what is shipped."""

import gguf
import torch
from gguf import GGUFReader, TokenType
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

import export
from model import Config, TinyChat


def load(path):
    """(model, tokenizer) with the weights as they are after quantization."""
    reader = GGUFReader(path)
    value = lambda key: reader.fields[key].contents()
    config = Config(
        vocab=value("llama.vocab_size"), width=value("llama.embedding_length"), layers=value("llama.block_count"), heads=value("llama.attention.head_count"),
        kv_heads=value("llama.attention.head_count_kv"), ffn=value("llama.feed_forward_length"), context=value("llama.context_length"),
        rope_base=value("llama.rope.freq_base"), norm_eps=value("llama.attention.layer_norm_rms_epsilon"),
    )
    model = TinyChat(config).eval()
    tensors = {t.name: gguf.quants.dequantize(t.data, t.tensor_type) for t in reader.tensors}
    model.load_state_dict({name: torch.from_numpy(tensors[export.tensor_name(name)].copy()) for name in model.state_dict()})

    tokens, kinds = value("tokenizer.ggml.tokens"), value("tokenizer.ggml.token_type")
    normal = {t: i for i, (t, k) in enumerate(zip(tokens, kinds)) if k == TokenType.NORMAL}
    tokenizer = Tokenizer(models.BPE(normal, [tuple(m.split(" ")) for m in value("tokenizer.ggml.merges")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    for token, kind in zip(tokens, kinds):
        if kind == TokenType.CONTROL:
            tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False)])
        elif kind == TokenType.USER_DEFINED:
            tokenizer.add_tokens([AddedToken(token, special=False, normalized=False)])
    assert [tokenizer.id_to_token(i) for i in range(len(tokens))] == list(tokens)
    return model, tokenizer


class Assistant:
    """Greedy answers of a GGUF."""

    def __init__(self, path):
        self.model, self.tokenizer = load(path)
        self.stop = {self.tokenizer.token_to_id(t) for t in ("<|im_end|>", "<|endoftext|>")}

    def complete(self, prompt: str, limit=256) -> str:
        ids = self.model.greedy(self.tokenizer.encode(prompt).ids, self.stop, limit)
        return self.tokenizer.decode(ids, skip_special_tokens=False)
