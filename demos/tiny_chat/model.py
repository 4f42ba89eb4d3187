"""The network: a Llama-architecture decoder, written so that its weights go into a GGUF without any permutation.

RoPE rotates neighboring pairs (2i, 2i+1), which is the order llama.cpp uses for `general.architecture = llama`.
The input embedding is also the output matrix (tied).
"""

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    """Shape of the network; widths are multiples of 32 because Q8_0 quantizes blocks of 32 weights."""

    vocab: int = 2048
    width: int = 192
    layers: int = 6
    heads: int = 6
    kv_heads: int = 2
    ffn: int = 512
    context: int = 2048
    rope_base: float = 10000.0
    norm_eps: float = 1e-5

    @property
    def head_dim(self) -> int:
        return self.width // self.heads

    def to_dict(self) -> dict:
        return asdict(self)


class RMSNorm(nn.Module):
    def __init__(self, width: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


def rope_tables(config: Config, length: int):
    """cos and sin for positions 0..length, one column a pair."""
    half = config.head_dim // 2
    freq = config.rope_base ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = torch.outer(torch.arange(length, dtype=torch.float64), freq)
    return angle.cos().float(), angle.sin().float()


def rotate(x, cos, sin):
    """x: [batch, heads, length, head_dim]; pairs are neighbors."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


class Block(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        width, kv = config.width, config.kv_heads * config.head_dim
        self.attn_norm = RMSNorm(width, config.norm_eps)
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, kv, bias=False)
        self.v = nn.Linear(width, kv, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.ffn_norm = RMSNorm(width, config.norm_eps)
        self.gate = nn.Linear(width, config.ffn, bias=False)
        self.up = nn.Linear(width, config.ffn, bias=False)
        self.down = nn.Linear(config.ffn, width, bias=False)

    def attention(self, x, cos, sin, cache=None):
        c = self.config
        batch, length, _ = x.shape
        split = lambda t, n: t.view(batch, length, n, c.head_dim).transpose(1, 2)
        q = rotate(split(self.q(x), c.heads), cos, sin)
        k = rotate(split(self.k(x), c.kv_heads), cos, sin)
        v = split(self.v(x), c.kv_heads)
        if cache is not None:
            k, v = cache.extend(self, k, v)
        group = c.heads // c.kv_heads
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=cache is None or length > 1)
        return self.o(out.transpose(1, 2).reshape(batch, length, c.width))

    def forward(self, x, cos, sin, cache=None):
        x = x + self.attention(self.attn_norm(x), cos, sin, cache)
        h = self.ffn_norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Cache:
    """Keys and values of the tokens seen so far, for generation one token at a time."""

    def __init__(self):
        self.length = 0
        self.entries = {}

    def extend(self, block, k, v):
        if block in self.entries:
            old_k, old_v = self.entries[block]
            k, v = torch.cat((old_k, k), dim=2), torch.cat((old_v, v), dim=2)
        self.entries[block] = (k, v)
        return k, v


class TinyChat(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = RMSNorm(config.width, config.norm_eps)
        cos, sin = rope_tables(config, config.context)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        nn.init.normal_(self.embedding.weight, std=0.02)
        for name, p in self.named_parameters():
            if p.ndim == 2 and "embedding" not in name:
                nn.init.normal_(p, std=p.shape[1] ** -0.5 * (0.5 if name.endswith(("o.weight", "down.weight")) else 1.0))

    def hidden(self, tokens, cache=None):
        """Final hidden states [batch, length, width] of token ids [batch, length]."""
        start = cache.length if cache else 0
        length = tokens.shape[1]
        cos, sin = self.cos[start : start + length], self.sin[start : start + length]
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, cos, sin, cache)
        if cache:
            cache.length += length
        return self.norm(x)

    def logits(self, hidden):
        return F.linear(hidden, self.embedding.weight)

    @torch.no_grad()
    def greedy(self, prompt, stop, limit=200):
        """Token ids that follow `prompt` (a list of ids) until one of `stop` or `limit` tokens."""
        cache, out = Cache(), []
        tokens = torch.tensor([prompt])
        while len(out) < limit and cache.length + tokens.shape[1] < self.config.context:
            best = int(self.logits(self.hidden(tokens, cache)[:, -1]).argmax())
            if best in stop:
                break
            out.append(best)
            tokens = torch.tensor([[best]])
        return out
