"""Trains the embedding model on pairs of texts of one meaning, then the reranker from its weights."""

import argparse
import random
import time
from pathlib import Path

import torch
import torch.nn.functional as F

import texts
import tokenizer as wordpiece
from model import Config, Ranker, TinyBert

TEMPERATURE = 0.07
SHORTER = (64, 32)  # leading dimensions that have to tell texts apart by themselves
LONGEST = 96
DOCUMENTS = 6  # for each query of a reranker's batch, one of them right


def pad(rows):
    length = max(map(len, rows))
    return torch.tensor([row + [0] * (length - len(row)) for row in rows])


def encode(tokenizer, text):
    return tokenizer.encode(text).ids[:LONGEST]


def encode_pair(tokenizer, query, document):
    """`[CLS] query [SEP] document [SEP]`"""
    return encode(tokenizer, query) + encode(tokenizer, document)[1:]


def distinct(rng, size):
    """Pairs of `size` different meanings."""
    found = {}
    while len(found) < size:
        first, second, key = texts.pair(rng)
        found.setdefault(key, (first, second))
    return list(found.items())


def contrast(first, second):
    """Each text has to find its partner among those of the batch, from both sides."""
    scores = first @ second.T / TEMPERATURE
    target = torch.arange(len(scores))
    return (F.cross_entropy(scores, target) + F.cross_entropy(scores.T, target)) / 2


def embedding_loss(model, tokenizer, rng, batch):
    pairs = [pair for _, pair in distinct(rng, batch)]
    first = model.embed(pad([encode(tokenizer, text) for text, _ in pairs]))
    second = model.embed(pad([encode(tokenizer, text) for _, text in pairs]))
    loss = contrast(first, second)
    for width in SHORTER:
        loss = loss + 0.5 * contrast(F.normalize(first[:, :width], dim=-1), F.normalize(second[:, :width], dim=-1))
    return loss


def ranking_loss(model, tokenizer, rng, batch):
    """The right document has to come first among those that the embedding model finds near, and a stranger."""
    groups = distinct(rng, batch * 3)
    with torch.no_grad():
        queries = model.finder.embed(pad([encode(tokenizer, pair[0]) for _, pair in groups[:batch]]))
        documents = model.finder.embed(pad([encode(tokenizer, pair[1]) for _, pair in groups]))
        near = (queries @ documents.T).topk(DOCUMENTS).indices.tolist()
    rows, targets = [], []
    for index, found in enumerate(near):
        others = [other for other in found if other != index][: DOCUMENTS - 2]
        others.append(rng.randrange(batch, len(groups)))
        for other in [index, *others]:
            rows.append(encode_pair(tokenizer, groups[index][1][0], groups[other][1][1]))
            targets.append(float(other == index))
    scores = model(pad(rows))
    target = torch.tensor(targets)
    first = F.cross_entropy(scores.view(batch, -1), torch.zeros(batch, dtype=torch.long))
    # Scores are read as chances by themselves, too.
    return first + F.binary_cross_entropy_with_logits(scores, target, pos_weight=torch.tensor(DOCUMENTS - 2.0))


def run(model, loss_of, tokenizer, minutes, batch, rate, seed):
    rng = random.Random(seed)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=rate, betas=(0.9, 0.98), weight_decay=0.01)
    started, step, window = time.process_time(), 0, []
    while (progress := (spent := (time.process_time() - started) / 60) / minutes) < 1:
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 30, (1 - progress) / 0.5)
        loss = loss_of(model, tokenizer, rng, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        window.append(loss.item())
        step += 1
        if step % 25 == 0:
            print(f"step {step} loss {sum(window) / len(window):.4f} minutes {spent:.1f}", flush=True)
            window.clear()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="build")
    parser.add_argument("--minutes", type=float, nargs=2, default=(4, 6), help="of CPU time for the embedding model and for the reranker")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    out = Path(arguments.out)
    tokenizer = wordpiece.load(out / "tokenizer.json")
    config = Config(vocab=tokenizer.get_vocab_size())
    bert = TinyBert(config)
    if arguments.minutes[0]:
        run(bert, embedding_loss, tokenizer, arguments.minutes[0], 96, 3e-3, arguments.seed)
        torch.save(dict(config=config.to_dict(), weights=bert.state_dict()), out / "embed.pt")
    if arguments.minutes[1]:
        weights = torch.load(out / "embed.pt")["weights"]
        bert.load_state_dict(weights)
        ranker = Ranker(bert)
        finder = TinyBert(config).requires_grad_(False)
        finder.load_state_dict(weights)
        object.__setattr__(ranker, "finder", finder)  # beside the ranker, not a part of it
        run(ranker, ranking_loss, tokenizer, arguments.minutes[1], 16, 1.5e-3, arguments.seed + 1)
        torch.save(dict(config=config.to_dict(), weights=ranker.state_dict()), out / "rerank.pt")


if __name__ == "__main__":
    main()
