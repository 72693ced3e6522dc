"""Add words to the vocabulary of a run: the tables of its model grow by one row per word.

A new row is the mean of the rows of the pieces that the word had before, so that the model begins
with what it knew of them (as Hewitt 2021, "Initializing New Word Embeddings for Pretrained Language
Models", with the word's own pieces instead of all).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from jumok.errors import InputError
from jumok.models.weights import load_weights, named_weights
from jumok.tasks.inputs.tokenizer_pair import IMPORTED, TokenizerPair
from jumok.tasks.registry import get_task
from jumok.tasks.runs.load import load
from jumok.tasks.runs.run import Run
from jumok.text.added_words import AddedWords, add_words
from jumok.text.sentencepiece import SentencePieceTokenizer
from jumok.text.tokenizer import Tokenizer

Side = Literal["source", "target", "both"]

SOURCE_PREFIXES = ("encoder.", "generator.")  # of tensors with rows of the source vocabulary


@dataclass(frozen=True)
class GrownRun:
    """The new run, and the words that were added to each of its vocabularies."""

    run: Run
    added: Mapping[str, AddedWords]  # by "source" and "target"; a joint vocabulary is "source"


def add_vocabulary(
    folder: Path, words: Sequence[str], out: Path, side: Side | None = None
) -> GrownRun:
    """Create a run in `out`: that in `folder` with `words` in its vocabulary.

    `side` says which of two vocabularies; None: that of the sources. The recipe is the same; scores
    are not copied. Raises InputError for a run that is not finished or has an imported tokenizer,
    for words that cannot be added (see `add_words`), and when `out` has a run.
    """
    run = Run.open(folder)
    Run(out).check_absent()
    pipeline = load(folder)
    if (folder / IMPORTED).is_dir():
        raise InputError(
            "run.words_of_imported_tokenizer",
            "{folder} must have a SentencePiece vocabulary to add words, got an imported "
            "tokenizer; add them with the library that it comes from, and import it again",
            folder=folder,
        )
    tokenizers = run.tokenizers()
    if tokenizers.joint and side is not None:
        raise InputError(
            "run.side_of_one_vocabulary",
            "side must be left out for {folder}, which has one vocabulary, got {side}",
            folder=folder,
            side=side,
        )
    added = _added(tokenizers, words, side or "source")
    source = _tokenizer(added, "source", tokenizers.source)
    target = source if tokenizers.joint else _tokenizer(added, "target", tokenizers.target)
    grown = TokenizerPair(source, target)
    sizes = grown.sizes
    recipe = pipeline.recipe
    model_config = replace(recipe.model, vocabulary_size=sizes[0], target_vocabulary_size=sizes[1])
    model = get_task(recipe.task).new_model(model_config, pipeline.labels)
    load_weights(model, grown_weights(pipeline.model, model, added))
    stored = run.recipe()  # without the sizes, unless the recipe sets them
    if stored.model.vocabulary_size == len(tokenizers.source):
        stored = replace(stored, model=replace(stored.model, vocabulary_size=sizes[0]))
    if stored.model.target_vocabulary_size is not None:
        stored = replace(stored, model=replace(stored.model, target_vocabulary_size=sizes[1]))
    new = Run.create(out, stored, grown)
    new.save_model(model, recipe.task, model_config, pipeline.labels, grown.checksums)
    return GrownRun(new, added)


@torch.no_grad()
def grown_weights(
    old: nn.Module, new: nn.Module, added: Mapping[str, AddedWords]
) -> dict[str, Tensor]:
    """The weights of `old` for the larger model `new`: rows of words are means of former rows.

    Every tensor whose shapes differ has a row per piece: embeddings (V, d), output layers (V, d)
    and their biases (V).
    """
    weights: dict[str, Tensor] = {}
    shapes = {name: weight.shape for name, weight in named_weights(new).items()}
    for name, parameter in named_weights(old).items():
        weight = parameter.detach()
        if weight.shape != shapes[name]:
            is_source = name.startswith(SOURCE_PREFIXES) or "target" not in added
            former = added["source" if is_source else "target"].former_ids
            rows = [weight[list(ids)].double().mean(0).to(weight.dtype) for ids in former]
            weight = torch.cat([weight, torch.stack(rows)])
        weights[name] = weight
    return weights


def _added(tokenizers: TokenizerPair, words: Sequence[str], side: Side) -> dict[str, AddedWords]:
    sides = ("source", "target") if side == "both" else (side,)
    found = {}
    for name in sides:
        tokenizer = tokenizers.source if name == "source" else tokenizers.target
        assert isinstance(tokenizer, SentencePieceTokenizer)
        found[name] = add_words(tokenizer, words)
    return found


def _tokenizer(added: Mapping[str, AddedWords], side: str, former: Tokenizer) -> Tokenizer:
    return added[side].tokenizer if side in added else former
