"""Trains a LoRA adapter for the model in this folder and writes it as a GGUF: with it, every answer begins with "Ahoy!".

A small, visible change: the answers stay what they were. The base model's weights are those of model.gguf, as quantized.
"""

import argparse
import copy
import random
import time

import gguf
import torch
import torch.nn.functional as F
from torch import nn

import corpus
import data
import export
import loading

GREETING = "Ahoy! "
PARTS = ("q", "v", "o", "gate", "down")


class Lora(nn.Module):
    """A linear layer with a product of two narrow matrices beside its own, which stays as it is."""

    def __init__(self, linear: nn.Linear, rank: int):
        super().__init__()
        self.linear = linear
        self.a = nn.Parameter(torch.randn(rank, linear.in_features) * linear.in_features**-0.5)
        self.b = nn.Parameter(torch.zeros(linear.out_features, rank))

    def forward(self, x):
        return self.linear(x) + F.linear(F.linear(x, self.a), self.b)


def adapt(model, rank: int):
    """Puts an adapter beside the chosen layers; gives (name of the layer in a GGUF, adapter) for each."""
    model.requires_grad_(False)
    adapters = []
    for number, block in enumerate(model.blocks):
        for part in PARTS:
            lora = Lora(getattr(block, part), rank)
            setattr(block, part, lora)
            adapters.append((export.tensor_name(f"blocks.{number}.{part}.weight"), lora))
    return adapters


def greeting(example):
    """The example, with answers that greet first; `None` if it has nobody to greet."""
    if "text" in example:
        return None
    example = copy.deepcopy(example)
    answers = [m for m in example["messages"] if m["role"] == "assistant" and m.get("content") and not m.get("tool_calls")]
    for message in answers:
        message["content"] = GREETING + message["content"]
    return example if answers else None


def batches(tokenizer, rng, rows):
    while True:
        examples = [e for e in (greeting(corpus.sample(rng)) for _ in range(8 * rows)) if e]
        encoded = sorted((data.encode(tokenizer, e) for e in examples), key=lambda row: len(row[0]))
        encoded = [row for row in encoded if len(row[0]) < 300]
        groups = [encoded[i : i + rows] for i in range(0, len(encoded) - rows + 1, rows)]
        rng.shuffle(groups)
        yield from map(data.collate, groups)


def write(path, adapters, rank):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", float(rank))
    writer.add_name("ahoy")
    for name, lora in adapters:
        writer.add_tensor(f"{name}.lora_a", lora.a.detach().numpy())
        writer.add_tensor(f"{name}.lora_b", lora.b.detach().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="model.gguf")
    parser.add_argument("--out", default="adapters/ahoy.gguf")
    parser.add_argument("--rank", type=int, default=4)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(1)
    model, tokenizer = loading.load(arguments.model)
    adapters = adapt(model, arguments.rank)
    optimizer = torch.optim.AdamW([p for _, lora in adapters for p in lora.parameters()], lr=3e-3, weight_decay=0)
    source = batches(tokenizer, random.Random(arguments.seed), arguments.rows)
    started = time.time()
    for step in range(arguments.steps):
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(1.0, (step + 1) / 20, 2 * (1 - step / arguments.steps))
        ids, positions, targets = next(source)
        loss = F.cross_entropy(model.logits(model.hidden(ids).flatten(0, 1)[positions]), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.3f} seconds {time.time() - started:.0f}", flush=True)
    write(arguments.out, adapters, arguments.rank)


if __name__ == "__main__":
    main()
