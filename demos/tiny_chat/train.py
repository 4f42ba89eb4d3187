"""Trains the model on the corpus, on the CPU.

Each process computes its own micro-batches with one thread; weights and gradients lie in shared memory, and each process updates the
parameters that it owns. That wastes less than many threads on small matrices when the machine has other work.

The learning rate is constant at first and then falls to zero; an exponential average of the weights is what gets exported, so that
every checkpoint is usable. Training stops after --steps or --minutes, whichever is first; the schedule follows the same measure.
"""

import argparse
import random
import time
from pathlib import Path

import torch
import torch.multiprocessing as mp
import torch.nn.functional as F

import data
import optim
import tokenizer as bpe
from model import Config, TinyChat

WARMUP = 60
DECAY = 0.45
MICRO_BATCHES = 2
SAVE_EVERY_SECONDS = 120


class Shared:
    """What the processes share: weights, one gradient and one count of learned tokens each, and the step's schedule."""

    def __init__(self, model, ranks):
        size = sum(p.numel() for p in model.parameters())
        self.weights = torch.empty(size).share_memory_()
        self.gradients = torch.zeros(ranks, size).share_memory_()
        self.counts = torch.zeros(ranks, 3, dtype=torch.float64).share_memory_()
        self.schedule = torch.zeros(2, dtype=torch.float64).share_memory_()
        self.barrier = mp.get_context("spawn").Barrier(ranks)
        self.store(model)

    def views(self, model, flat):
        offset = 0
        for name, p in model.named_parameters():
            yield name, p, flat[offset : offset + p.numel()].view_as(p)
            offset += p.numel()

    def store(self, model):
        with torch.no_grad():
            for _, p, view in self.views(model, self.weights):
                view.copy_(p)

    def attach(self, model):
        """Makes the parameters of a process's model views of the shared weights."""
        for _, p, view in self.views(model, self.weights):
            p.data = view


def rate(step: int, progress: float) -> float:
    return min(1.0, (step + 1) / WARMUP, max(0.01, (1 - progress) / DECAY))


def repeat_share(shares, progress: float) -> float:
    """Rows of random tokens that come again: most at first, until the model finds and copies, then few."""
    return shares[0 if progress < 0.16 else 1 if progress < 0.35 else 2]


def start_from(model, state):
    """Takes weights of an earlier run; one with fewer key/value heads has each of them doubled, which computes the same."""
    for name, p in model.named_parameters():
        weight = state[name]
        if weight.shape != p.shape:
            heads = weight.view(-1, model.config.head_dim, weight.shape[1])
            weight = heads.repeat_interleave(p.shape[0] // weight.shape[0], dim=0).flatten(0, 1)
        p.data.copy_(weight)


def loss_of(model, ids, positions, targets):
    hidden = model.hidden(ids).flatten(0, 1)[positions]
    return F.cross_entropy(model.logits(hidden), targets, reduction="sum")


def save(path, model, average, shared, progress):
    state = {name: view.clone() for name, _, view in shared.views(model, average)}
    temporary = path.with_suffix(".tmp")
    torch.save(dict(config=model.config.to_dict(), average=state, **progress), temporary)
    temporary.rename(path)


def work(rank, ranks, shared, config, arguments):
    torch.set_num_threads(1)
    model = TinyChat(config)
    shared.attach(model)
    owned = [(n, p) for n, p in model.named_parameters() if optim.owner(n, p, ranks) == rank]
    optimizers = optim.build(owned)
    base_rates = [o.param_groups[0]["lr"] for o in optimizers]
    source = data.batches(bpe.load(arguments.tokenizer), random.Random(arguments.seed * 1000 + rank), arguments.tokens, lambda: repeat_share(arguments.repeats, float(shared.schedule[0])))
    if rank:
        shared.barrier.wait()  # the first process compiles, the others find the result in the compiler's cache
    compiled = torch.compile(loss_of, dynamic=True)
    if rank == 0:
        for _ in range(2):
            compiled(model, *next(source)).backward()
        shared.barrier.wait()
    model.zero_grad(set_to_none=True)
    average = shared.weights.clone()
    grads = list(shared.views(model, shared.gradients[rank]))
    path, started, saved, tokens, step, window = Path(arguments.out), time.time(), time.time(), 0, 0, []
    while True:
        if rank == 0:
            spent = time.time() - started
            shared.schedule[0] = max(step / arguments.steps, spent / 60 / arguments.minutes)
        shared.counts[rank].zero_()
        for _ in range(MICRO_BATCHES):
            ids, positions, targets = next(source)
            loss = compiled(model, ids, positions, targets)
            loss.backward()
            shared.counts[rank] += torch.tensor([loss.item(), len(targets), ids.numel()], dtype=torch.float64)
        for _, p, view in grads:
            view.copy_(p.grad)
        shared.barrier.wait()
        progress = float(shared.schedule[0])
        total, learned, seen = shared.counts.sum(0).tolist()
        scale = rate(step, progress)
        summed = [list(shared.views(model, g)) for g in shared.gradients]
        for rows in zip(*summed):
            name, p, _ = rows[0]
            if optim.owner(name, p, ranks) == rank:
                p.grad = sum(view for _, _, view in rows) / learned
        for o, lr in zip(optimizers, base_rates):
            o.param_groups[0]["lr"] = lr * scale
            o.step()
        model.zero_grad(set_to_none=True)
        step, tokens = step + 1, tokens + int(seen)
        shared.barrier.wait()
        if rank == 0:
            average.lerp_(shared.weights, 1 - min(0.997, step / (step + 20)))
            window.append(total / learned)
            if step % 25 == 0:
                print(f"step {step} loss {sum(window) / len(window):.4f} rate {scale:.3f} tokens {tokens / 1e6:.2f}M minutes {(time.time() - started) / 60:.1f}", flush=True)
                window.clear()
            if time.time() - saved > SAVE_EVERY_SECONDS or progress >= 1:
                save(path, model, average, shared, dict(step=step, tokens=tokens, minutes=(time.time() - started) / 60))
                saved = time.time()
        if progress >= 1:
            break


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="build/checkpoint.pt")
    parser.add_argument("--tokenizer", default="build/tokenizer.json")
    parser.add_argument("--steps", type=int, default=10**9)
    parser.add_argument("--minutes", type=float, default=75)
    parser.add_argument("--tokens", type=int, default=1000, help="padded tokens in a micro-batch")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--repeats", type=float, nargs=3, default=(0.85, 0.35, 0.1), help="share of rows of random tokens that come again: at first, then, in the end")
    parser.add_argument("--kv-heads", type=int, default=6)
    parser.add_argument("--start", help="a checkpoint to take the weights from")
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    config = Config(vocab=bpe.load(arguments.tokenizer).get_vocab_size(), kv_heads=arguments.kv_heads)
    model = TinyChat(config)
    if arguments.start:
        start_from(model, torch.load(arguments.start)["average"])
    print(f"{sum(p.numel() for p in model.parameters())} parameters", flush=True)
    shared = Shared(model, arguments.processes)
    mp.spawn(work, args=(arguments.processes, shared, config, arguments), nprocs=arguments.processes)


if __name__ == "__main__":
    main()
