"""Trains the model on the CPU, from nothing.

First the encoder alone learns to tell what each patch and each picture show (`data.hints`), then all of it learns to answer. The heads
for these hints are not exported. The learning rate is constant at first and then falls to zero; an exponential average of the weights is
what gets exported, so that every checkpoint is usable. Training stops after --steps or --minutes, whichever is first; the schedule
follows the same measure. --start goes on from a checkpoint, with all of it.

Each process computes the gradients of its own rows with one thread, and then all take the same step. On a busy machine that wastes less
than many threads on small matrices.
"""

import argparse
import random
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn

import data
import tokenizer as bpe
from model import Config, TinyVision

WARMUP = 50
DECAY = 0.4
LOOKING = 0.25  # the share of the training in which the encoder is alone
SAVE_EVERY_SECONDS = 60


class Hints(nn.Module):
    """Heads that tell from the encoder's features what `data.hints` holds."""

    def __init__(self, config: Config):
        super().__init__()
        self.cells = nn.Linear(config.vision_width, sum(data.CELLS))
        self.whole = nn.Linear(config.vision_width, sum(data.WHOLE))

    def loss(self, features, cells, whole):
        """The mean loss of both, and the share of right classes of the whole."""
        total, right = 0.0, []
        for scores, parts, target in ((self.cells(features), data.CELLS, cells), (self.whole(features.mean(1)), data.WHOLE, whole)):
            for i, part in enumerate(scores.split(parts, -1)):
                total = total + F.cross_entropy(part.flatten(0, -2), target[..., i].flatten())
                right.append((part.argmax(-1) == target[..., i]).float().mean())
        return total / len(right), torch.stack(right[len(data.CELLS):]).min()


def rate(step: int, progress: float) -> float:
    return min(1.0, (step + 1) / WARMUP, max(0.01, (1 - progress) / DECAY))


def optimizers(model, hints):
    """Muon for the matrices of the blocks, AdamW for the rest."""
    named = list(model.named_parameters())
    matrices = [p for n, p in named if p.ndim == 2 and ".blk." in n]
    rest = [p for n, p in named if not (p.ndim == 2 and ".blk." in n)] + list(hints.parameters())
    return [torch.optim.Muon(matrices, lr=0.02, weight_decay=0.05, ns_steps=4), torch.optim.AdamW(rest, lr=3e-3, betas=(0.9, 0.97), weight_decay=0.0)]


def answer_loss(model, features, tokens, slots, positions, mask, learn, targets):
    """The loss of the answers' tokens, and the share that is right."""
    states = model.states(tokens, model.vision.project(features), slots, positions, mask).flatten(0, 1)[learn]
    logits = model.text.logits(states)
    return F.cross_entropy(logits, targets), (logits.argmax(-1) == targets).float().mean()


def share(parameters):
    """Makes each gradient the mean over the processes."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = torch.cat([g.flatten() for g in gradients])
    dist.all_reduce(flat)
    for g, mean in zip(gradients, (flat / dist.get_world_size()).split([g.numel() for g in gradients])):
        g.copy_(mean.view_as(g))


def save(path, model, average, **progress):
    temporary = path.with_suffix(".tmp")
    torch.save(dict(config=model.config.to_dict(), average=average, **progress), temporary)
    temporary.rename(path)


def work(rank, arguments, meet):
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=arguments.processes)
    rng, tokenizer = random.Random(arguments.seed * 1000 + rank), bpe.load(arguments.tokenizer)
    config = Config(vocab=tokenizer.get_vocab_size())
    model, hints, encoder = TinyVision(config), Hints(config), data.Encoder(tokenizer, config.image_tokens)
    if arguments.start:
        model.load_state_dict(torch.load(arguments.start)["average"])
    if rank == 0:
        print(f"{sum(p.numel() for p in model.vision.parameters())} + {sum(p.numel() for p in model.text.parameters())} parameters", flush=True)
    optims = optimizers(model, hints)
    everything = [p for o in optims for group in o.param_groups for p in group["params"]]
    base_rates = [o.param_groups[0]["lr"] for o in optims]
    average = {n: p.detach().clone() for n, p in model.named_parameters()}
    step, seen, progress, started, window = 0, 0, 0.0, time.time(), []
    saved = started
    while progress < 1:
        ahead = torch.tensor(max(step / arguments.steps, (time.time() - started) / 60 / arguments.minutes), dtype=torch.float64)
        dist.broadcast(ahead, 0)
        progress = float(ahead)
        if progress < LOOKING and not arguments.start:
            pixels, cells, whole = data.looks(rng, 3 * arguments.rows, config.patch)
            loss, told = hints.loss(model.vision.features(pixels), cells, whole)
            right = torch.zeros(())
        else:
            pixels, cells, whole, *rows = data.batch(encoder, rng, arguments.rows, config)
            features = model.vision.features(pixels)
            hinted, told = hints.loss(features, cells, whole)
            loss, right = answer_loss(model, features, *rows)
            loss = loss + hinted
        loss.backward()
        share(everything)
        scale = rate(step, progress)
        for o, base in zip(optims, base_rates):
            o.param_groups[0]["lr"] = base * scale
            o.step()
            o.zero_grad()
        step, seen = step + 1, seen + len(pixels) * arguments.processes
        with torch.no_grad():
            for name, p in model.named_parameters():
                average[name].lerp_(p, 1 - min(0.99, step / (step + 20)))
        window.append((loss.item(), told.item(), right.item()))
        if rank == 0 and step % 25 == 0:
            loss, told, right = (sum(v) / len(v) for v in zip(*window))
            print(f"step {step} loss {loss:.4f} told {told:.3f} right {right:.4f} rate {scale:.3f} pictures {seen} minutes {(time.time() - started) / 60:.1f}", flush=True)
            window.clear()
        if rank == 0 and (time.time() - saved > SAVE_EVERY_SECONDS or progress >= 1):
            save(Path(arguments.out), model, average, step=step, pictures=seen, minutes=(time.time() - started) / 60)
            saved = time.time()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="build/checkpoint.pt")
    parser.add_argument("--tokenizer", default="build/tokenizer.json")
    parser.add_argument("--steps", type=int, default=10**9)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rows", type=int, default=16, help="rows of a process's batch; the encoder alone gets three times as many pictures")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--start", help="a checkpoint to take the weights from")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, args=(arguments, f"file://{folder}/meet"), nprocs=arguments.processes)


if __name__ == "__main__":
    main()
