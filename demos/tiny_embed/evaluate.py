"""How often the models find the right text: questions in wordings that training has not seen, among the answers of all terms."""

import argparse
from pathlib import Path

import torch

import texts
import tokenizer as wordpiece
from model import Config, Ranker, TinyBert
from train import encode, encode_pair, pad

WORDINGS = ["I would like to learn about {x}, where do I begin?", "My boss keeps talking about {x}. Huh?", "{x} - any idea what people use that for?", "Is there documentation on {x}?"]
NEAR = [
    ("A cat is sleeping on the sofa.", "The kitten sleeps on a couch.", "The stock market fell today."),
    ("How do I repair my car?", "Fixing an automobile at home", "The soup needs more salt."),
    ("The server crashed with an error.", "A failure stopped the host.", "The children play football in the park."),
    ("What is a token?", "Explain tokens to me please", "Who painted the Mona Lisa?"),
    ("The teacher reads a book to the pupils.", "An instructor reads to students.", "A boat crosses the stormy sea."),
    ("The zorbitang opens the door.", "A door is opened by the zorbitang.", "The plinkmar closes the window."),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    build = Path(arguments.build)
    tokenizer = wordpiece.load(build / "tokenizer.json")
    saved = torch.load(build / "embed.pt")
    bert = TinyBert(Config(**saved["config"])).eval()
    bert.load_state_dict(saved["weights"])
    ranker = None
    if (build / "rerank.pt").exists():
        ranker = Ranker(TinyBert(Config(**saved["config"]))).eval()
        ranker.load_state_dict(torch.load(build / "rerank.pt")["weights"])
    embed = lambda rows: bert.embed(pad([encode(tokenizer, text) for text in rows]))
    with torch.no_grad():
        answers = [answer for _, _, answer in texts.TERMS]
        documents = embed(answers)
        first = near = ranked = total = 0
        for index, (names, _, _) in enumerate(texts.TERMS):
            for wording in WORDINGS:
                query = wording.replace("{x}", names.split("|")[0])
                found = (embed([query]) @ documents.T)[0].topk(10).indices.tolist()
                total += 1
                first += found[0] == index
                near += index in found
                if ranker is not None:
                    scores = ranker(pad([encode_pair(tokenizer, query, answers[i]) for i in found]))
                    best = found[int(scores.argmax())]
                    ranked += best == index
                    if arguments.verbose and best != index:
                        print(query, "->", answers[best])
        print(f"found first: {first}/{total}, among ten: {near}/{total}, first after ranking: {ranked}/{total}")
        right = 0
        for anchor, like, unlike in NEAR:
            a, b, c = embed([anchor, like, unlike])
            right += float(a @ b) > float(a @ c)
            if arguments.verbose:
                print(f"{float(a @ b):.2f} {float(a @ c):.2f} {anchor}")
        print(f"near texts nearer: {right}/{len(NEAR)}")


if __name__ == "__main__":
    main()
