"""A start for `enko-small`: the weights of `koen-small` with its two languages exchanged.

    python scripts/reverse_translator.py PAIRS.tsv OUT [--model koen-small]

The layers stay where they are. The encoder reads the English vocabulary with the vectors of the
decoder's; the decoder has a new Korean vocabulary of the targets of PAIRS, and the vector of a
piece is the mean of those of the encoder's pieces that spell it. Both tables are scaled to the
mean norm of the table that they replace. `jumok train enko-small model.init=OUT` begins from it.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

import jumok
from jumok.data.files.tables import read_table
from jumok.models.weights import named_weights
from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.run import Run
from jumok.tasks.runs.setup import build_model
from jumok.text.sentencepiece import SentencePieceTokenizer
from jumok.text.tokenizer import Tokenizer

SOURCE, TARGET = (f"{side}.embedding.tokens.weight" for side in ("encoder", "decoder"))
N_SPECIAL = 7 + 256  # pieces that both vocabularies of targets begin with: [PAD] and so on, bytes


def main() -> None:
    """Write the run."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("pairs", type=Path)
    arguments.add_argument("out", type=Path)
    arguments.add_argument("--model", default="koen-small")
    given = arguments.parse_args()
    model = jumok.load(given.model, device="cpu")
    recipe = load_recipe("enko-small")
    targets = read_table(given.pairs, {"target": "ko"}).column("target")
    vocabulary = replace(recipe.vocabulary, size=recipe.vocabulary.target_size)
    korean = SentencePieceTokenizer.train(targets, vocabulary)
    tokenizers = TokenizerPair(model.target_vocabulary, korean)
    recipe = recipe.with_vocabulary(*tokenizers.sizes)
    started = build_model(recipe, (), torch.device("cpu"))
    old, new = named_weights(model.model), named_weights(started)
    with torch.no_grad():
        for name, weight in new.items():
            if name == SOURCE:
                weight.copy_(scaled(old[TARGET], like=old[SOURCE]))
            elif name == TARGET:
                spelled = piece_vectors(korean, model.vocabulary, old[SOURCE])
                weight.copy_(scaled(spelled, like=old[TARGET]))
                weight[:N_SPECIAL] = old[TARGET][:N_SPECIAL]
            else:
                weight.copy_(old[name])
    run = Run.create(given.out, recipe, tokenizers)
    run.save_model(started, recipe.task, recipe.model, (), tokenizers.checksums)


def piece_vectors(pieces: SentencePieceTokenizer, vocabulary: Tokenizer, table: Tensor) -> Tensor:
    """The mean vector of the pieces of `vocabulary` that spell each of `pieces`: (V, D)."""
    known = {vocabulary.piece(i): i for i in range(len(vocabulary))}
    rows = []
    for piece in map(pieces.piece, range(len(pieces))):
        ids = [known[piece]] if piece in known else vocabulary.encode(piece.replace("▁", " "))
        rows.append(table[ids or [vocabulary.unk_id]].mean(0))
    return torch.stack(rows)


def scaled(table: Tensor, *, like: Tensor) -> Tensor:
    """The rows with the mean norm of those of another table."""
    found: Tensor = table * (like.norm(dim=1).mean() / table.norm(dim=1).mean())
    return found


if __name__ == "__main__":
    main()
