"""Reads the GGUF files back into the PyTorch model and its tokenizer, so that what is checked is what is shipped."""

from pathlib import Path

import gguf
import torch
from gguf import GGUFReader, TokenType
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

import chat
import data
import export
from model import Config, TinyVision


def tokenizer_of(value) -> Tokenizer:
    tokens, kinds = value("tokenizer.ggml.tokens"), value("tokenizer.ggml.token_type")
    normal = {t: i for i, (t, k) in enumerate(zip(tokens, kinds)) if k == TokenType.NORMAL}
    tokenizer = Tokenizer(models.BPE(normal, [tuple(m.split(" ")) for m in value("tokenizer.ggml.merges")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, k in zip(tokens, kinds) if k == TokenType.CONTROL])
    return tokenizer


def load(folder):
    """(model, tokenizer) with the weights as they are in the folder's model.gguf and mmproj.gguf."""
    files = [GGUFReader(Path(folder) / name) for name in ("model.gguf", "mmproj.gguf")]
    text, vision = (lambda key, file=file: file.fields[key].contents() for file in files)
    config = Config(
        vocab=text("llama.vocab_size"), width=text("llama.embedding_length"), layers=text("llama.block_count"), heads=text("llama.attention.head_count"),
        ffn=text("llama.feed_forward_length"), context=text("llama.context_length"), rope_base=text("llama.rope.freq_base"),
        norm_eps=text("llama.attention.layer_norm_rms_epsilon"), patch=vision("clip.vision.patch_size"), vision_width=vision("clip.vision.embedding_length"),
        vision_layers=vision("clip.vision.block_count"), vision_heads=vision("clip.vision.attention.head_count"), vision_ffn=vision("clip.vision.feed_forward_length"),
    )
    model = TinyVision(config).eval()
    tensors = {t.name: torch.from_numpy(gguf.quants.dequantize(t.data, t.tensor_type).copy()) for file in files for t in file.tensors}
    model.load_state_dict({name: tensors[export.tensor_name(name)].view(p.shape) for name, p in model.state_dict().items()})
    return model, tokenizer_of(text)


class Assistant:
    """Greedy answers of the model in a folder."""

    def __init__(self, folder):
        self.model, self.tokenizer = load(folder)
        self.encoder = data.Encoder(self.tokenizer, self.model.config.image_tokens)

    @torch.no_grad()
    def answer(self, messages, shown, limit=40):
        """The answer to a conversation with the pictures `shown`, and the smallest lead of a token of it over the next best one."""
        first, *others = self.encoder.prompt(messages)
        tokens = first + [t for part in others for t in [(None, False)] + part]
        features = self.model.vision(data.pixels(shown))
        out, lead, end = [], float("inf"), self.tokenizer.token_to_id(chat.END)
        while len(out) < limit:
            row = data.Row(shown, [tokens + [(t, False) for t in out]])
            ids, slots, positions, mask, _, _ = data.collate([row], self.model.config.image_tokens)
            last = len(tokens) + len(out) + len(shown) * (self.model.config.image_tokens - 1) - 1
            best = self.model.text.logits(self.model.states(ids, features, slots, positions, mask)[0, last]).topk(2)
            lead = min(lead, float(best.values[0] - best.values[1]))
            if best.indices[0] == end:
                break
            out.append(int(best.indices[0]))
        return self.tokenizer.decode(out, skip_special_tokens=False), lead
