"""Trains the WordPiece tokenizer on the corpus: lower case, no accents, as llama.cpp's `bert` tokenizer splits."""

import argparse
import string

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import texts

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCAB = 3072


def train(samples=12000, seed=1) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    # Every printable character, alone and inside a word, so that no ASCII text is unknown.
    letters = string.ascii_lowercase + string.digits
    alphabet = [c for c in string.printable.lower() if not c.isspace()]
    spelled = [" ".join(alphabet), *(f"{a}{b}" for a in letters for b in letters)] * 2
    trainer = trainers.WordPieceTrainer(vocab_size=VOCAB, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([*texts.lines(samples, seed), *spelled], trainer)
    ids = {t: tokenizer.token_to_id(t) for t in ("[CLS]", "[SEP]")}
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
    return tokenizer


def load(path) -> Tokenizer:
    return Tokenizer.from_file(str(path))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="build/tokenizer.json")
    arguments = parser.parse_args()
    tokenizer = train()
    tokenizer.save(arguments.out)
    print(f"{tokenizer.get_vocab_size()} tokens -> {arguments.out}")


if __name__ == "__main__":
    main()
