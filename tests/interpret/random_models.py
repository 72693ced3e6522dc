"""Models of every kind with random weights, and texts for them."""

from functools import cache
from typing import Any

import torch

from jumok.models import EncoderDecoder, LanguageModel
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.registry import get_task
from tests.tasks.tiny_jobs import LABELS, pair_rows, reading_vocabulary, recipe, review_vocabulary
from tests.tiny_runs import readings, reviews

REVIEWS = [text for text, _ in reviews(2, 3)]
READINGS = [spoken for spoken, _ in readings(2, 5)]
PAIRS = ["\t".join(row[:2]) for row in pair_rows(2, 1)]

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "classifier": ("classification", {"pooling": "mean", "gated": True, "norm": "rms"}),
    "first token": ("classification", {"pooling": "first", "norm_first": True, "pooler": "tanh"}),
    "pairs": ("classification", {"pooling": "compare", "n_segments": 2}),
    "encoder-decoder classifier": ("classification", {"kind": "encoder_decoder", "d_head": 20}),
    "regression": ("regression", {"n_segments": 2, "embedding_norm": True}),
    "tagging": ("tagging", {"attention_scale": 1.0}),
    "masked": ("masked_language_modeling", {"activation": "gelu"}),
    "language model": ("language_modeling", {"kind": "decoder", "norm_first": True, "d_head": 24}),
    "sequences": ("sequence_to_sequence", {"kind": "encoder_decoder", "bias": False}),
}


@cache
def loaded_of(kind: str, positions: str = "sinusoidal") -> Pipeline:
    """A random model with large weights."""
    task, changes = KINDS[kind]
    sequences = task == "sequence_to_sequence"
    vocabulary = reading_vocabulary() if sequences else review_vocabulary()
    model = {"n_layers": 2, "positions": positions, "tie_embeddings": False} | changes
    plan = recipe(task, model).with_vocabulary(len(vocabulary))
    labels = {"classification": LABELS, "tagging": ("O", "B-PS", "I-PS")}.get(task, ())
    torch.manual_seed(3)
    network = get_task(plan.task).build_model(plan.model, labels)
    with torch.no_grad():
        for weight in network.parameters():
            weight.copy_(torch.randn_like(weight) * (0.3 if weight.ndim > 1 else 0.5))
    loaded = get_task(plan.task).pipeline(network, vocabulary, plan, labels, torch.device("cpu"))
    if isinstance(network, EncoderDecoder | LanguageModel):
        return loaded.with_decoding(["max_length=7"])
    return loaded


def texts_of(kind: str) -> list[str]:
    """Two texts such a model can read, of different lengths."""
    if kind in ("pairs", "regression"):
        return PAIRS
    if kind == "masked":
        return [REVIEWS[0].replace(" ", " [MASK] ", 1), REVIEWS[1]]
    return READINGS if kind == "sequences" else REVIEWS
