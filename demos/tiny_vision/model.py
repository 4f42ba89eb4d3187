"""The network, written so that its weights go into two GGUF files without any permutation.

`Vision` is the encoder with LLaVA 1.5's projector as libmtmd computes it (`clip.projector_type = mlp`, no class token): patches of
the picture become embeddings of the language model. `Text` is a Llama-architecture decoder; RoPE rotates neighboring pairs, and the
input embedding is also the output matrix.
"""

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import nn

import pictures

MEAN, STD = 0.5, 0.25  # of a pixel whose values go from 0 to 1


@dataclass
class Config:
    """Shape of the network; widths are multiples of 32 because Q8_0 quantizes blocks of 32 weights."""

    vocab: int = 512
    width: int = 128
    layers: int = 4
    heads: int = 4
    ffn: int = 256
    context: int = 1024
    rope_base: float = 10000.0
    patch: int = 8
    vision_width: int = 128
    vision_layers: int = 4
    vision_heads: int = 4
    vision_ffn: int = 384
    norm_eps: float = 1e-5

    @property
    def image_tokens(self) -> int:
        return (pictures.SEEN // self.patch) ** 2

    def to_dict(self) -> dict:
        return asdict(self)


def heads(x, count):
    """[batch, length, width] as [batch, count, length, width / count]."""
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


class VisionBlock(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        width = c.vision_width
        self.heads = c.vision_heads
        self.ln1, self.ln2 = (nn.LayerNorm(width, eps=c.norm_eps) for _ in range(2))
        self.attn_q, self.attn_k, self.attn_v, self.attn_out = (nn.Linear(width, width) for _ in range(4))
        self.ffn_up, self.ffn_down = nn.Linear(width, c.vision_ffn), nn.Linear(c.vision_ffn, width)

    def forward(self, x):
        h = self.ln1(x)
        q, k, v = (heads(part(h), self.heads) for part in (self.attn_q, self.attn_k, self.attn_v))
        x = x + self.attn_out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.ffn_down(F.gelu(self.ffn_up(self.ln2(x)), approximate="tanh"))


class Vision(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.patch = c.patch
        self.patch_embd = nn.Linear(3 * c.patch**2, c.vision_width, bias=False)
        self.position_embd = nn.Parameter(torch.randn(c.image_tokens, c.vision_width) * 0.3)
        self.blk = nn.ModuleList(VisionBlock(c) for _ in range(c.vision_layers))
        self.post_ln = nn.LayerNorm(c.vision_width, eps=c.norm_eps)
        self.up, self.down = nn.Linear(c.vision_width, 2 * c.width), nn.Linear(2 * c.width, c.width)

    def features(self, pixels):
        """Pixels [batch, side, side, 3] of 0-255 as one vector a patch, row by row."""
        x = ((pixels.float() / 255 - MEAN) / STD).permute(0, 3, 1, 2)
        patches = F.unfold(x, self.patch, stride=self.patch).transpose(1, 2)
        x = self.patch_embd(patches) + self.position_embd
        for block in self.blk:
            x = block(x)
        return self.post_ln(x)

    def project(self, features):
        """Embeddings for the language model."""
        return self.down(F.gelu(self.up(features), approximate="tanh"))

    def forward(self, pixels):
        return self.project(self.features(pixels))


class RMSNorm(nn.Module):
    def __init__(self, width: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


def rotate(x, cos, sin):
    """x: [batch, heads, length, head width]; pairs are neighbors."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


class TextBlock(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.heads = c.heads
        self.attn_norm, self.ffn_norm = RMSNorm(c.width, c.norm_eps), RMSNorm(c.width, c.norm_eps)
        self.attn_q, self.attn_k, self.attn_v, self.attn_output = (nn.Linear(c.width, c.width, bias=False) for _ in range(4))
        self.ffn_gate, self.ffn_up = nn.Linear(c.width, c.ffn, bias=False), nn.Linear(c.width, c.ffn, bias=False)
        self.ffn_down = nn.Linear(c.ffn, c.width, bias=False)

    def forward(self, x, cos, sin, mask):
        h = self.attn_norm(x)
        q, k, v = (heads(part(h), self.heads) for part in (self.attn_q, self.attn_k, self.attn_v))
        out = F.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v, attn_mask=mask)
        x = x + self.attn_output(out.transpose(1, 2).flatten(2))
        h = self.ffn_norm(x)
        return x + self.ffn_down(F.silu(self.ffn_gate(h)) * self.ffn_up(h))


class Text(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.token_embd = nn.Embedding(c.vocab, c.width)
        self.blk = nn.ModuleList(TextBlock(c) for _ in range(c.layers))
        self.output_norm = RMSNorm(c.width, c.norm_eps)
        half = c.width // c.heads // 2
        turns = torch.outer(torch.arange(c.context), c.rope_base ** (-torch.arange(half) / half))
        self.register_buffer("cos", turns.cos(), persistent=False)
        self.register_buffer("sin", turns.sin(), persistent=False)

    def forward(self, embeddings, positions, mask):
        """Final states of embeddings [batch, length, width] at positions [batch, length]; `mask` says who may look at whom."""
        cos, sin = self.cos[positions][:, None], self.sin[positions][:, None]
        x = embeddings
        for block in self.blk:
            x = block(x, cos, sin, mask)
        return self.output_norm(x)

    def logits(self, states):
        return F.linear(states, self.token_embd.weight)


class TinyVision(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.vision, self.text = Vision(config), Text(config)
        nn.init.normal_(self.text.token_embd.weight, std=0.05)
        for name, p in self.named_parameters():
            if p.ndim == 2 and name.endswith(".weight") and "embd" not in name:
                nn.init.normal_(p, std=p.shape[1] ** -0.5 * (0.5 if name.endswith(("out.weight", "output.weight", "down.weight")) else 1.0))

    def states(self, tokens, pictures, slots, positions, mask):
        """Final states of rows of tokens; `slots` are the rows' places (row, start) where the embedded `pictures` stand."""
        x = self.text.token_embd(tokens)
        if len(slots):
            at = (slots[:, :1] * tokens.shape[1] + slots[:, 1:] + torch.arange(self.config.image_tokens)).flatten()
            x = x.flatten(0, 1).index_copy(0, at, pictures.flatten(0, 1)).view(x.shape)
        return self.text(x, positions, mask)
