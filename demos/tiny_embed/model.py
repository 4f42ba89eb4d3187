"""The network: BERT as llama.cpp computes it (`general.architecture = bert`), with a mean for embeddings or a head for ranks."""

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    """Shape of the network; widths are multiples of 32 because Q8_0 quantizes blocks of 32 weights."""

    vocab: int = 3072
    width: int = 128
    layers: int = 3
    heads: int = 4
    ffn: int = 384
    context: int = 512
    norm_eps: float = 1e-12

    def to_dict(self) -> dict:
        return asdict(self)


class Block(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.heads = c.heads
        self.q, self.k, self.v, self.o = (nn.Linear(c.width, c.width) for _ in range(4))
        self.attn_norm = nn.LayerNorm(c.width, c.norm_eps)
        self.up, self.down = nn.Linear(c.width, c.ffn), nn.Linear(c.ffn, c.width)
        self.out_norm = nn.LayerNorm(c.width, c.norm_eps)

    def forward(self, x, mask):
        batch, length, width = x.shape
        split = lambda t: t.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
        seen = F.scaled_dot_product_attention(split(self.q(x)), split(self.k(x)), split(self.v(x)), attn_mask=mask)
        x = self.attn_norm(x + self.o(seen.transpose(1, 2).reshape(batch, length, width)))
        # llama.cpp's GELU is the tanh approximation
        return self.out_norm(x + self.down(F.gelu(self.up(x), approximate="tanh")))


class TinyBert(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.config = c
        self.tokens, self.positions = nn.Embedding(c.vocab, c.width), nn.Embedding(c.context, c.width)
        self.types = nn.Parameter(torch.zeros(1, c.width))
        self.embed_norm = nn.LayerNorm(c.width, c.norm_eps)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.layers))
        nn.init.normal_(self.tokens.weight, std=0.05)
        nn.init.normal_(self.positions.weight, std=0.005)
        for block in self.blocks:
            # A token looks at its like from the first step on, which is what comparing two texts is made of.
            block.k.weight.data.copy_(block.q.weight.data)
            for part in (block.q, block.k, block.v, block.o, block.up, block.down):
                nn.init.zeros_(part.bias)

    def forward(self, ids):
        """Hidden states of token ids [batch, length]; 0 is padding."""
        mask = (ids != 0)[:, None, None, :]
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]] + self.types
        x = self.embed_norm(x)
        for block in self.blocks:
            x = block(x, mask)
        return x

    def mean(self, ids):
        some = (ids != 0).float()[..., None]
        return (self(ids) * some).sum(1) / some.sum(1)

    def embed(self, ids):
        """The mean over each text, of length 1."""
        return F.normalize(self.mean(ids), dim=-1)


class Ranker(nn.Module):
    """How well a document answers a query: a head on the mean over `[CLS] query [SEP] document [SEP]`, to which each token can say
    whether it has met its like."""

    def __init__(self, bert: TinyBert):
        super().__init__()
        self.bert = bert
        width = bert.config.width
        self.head, self.out = nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, ids):
        return self.out(torch.tanh(self.head(self.bert.mean(ids))))[:, 0]
