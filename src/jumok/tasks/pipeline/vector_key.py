"""The checksum of a pipeline's vectors: what decides which vector a text gets."""

import hashlib
import json

import torch

from jumok.models.weights import named_weights
from jumok.tasks.pipeline.pipeline import Pipeline


def vector_key(pipeline: Pipeline, prompt: str, precision: str | None) -> str:
    """A checksum of the weights, the tokenizer, the encoding and the precision."""
    encoding = pipeline.sentence_encoding or pipeline.default_encoding
    config = [pipeline.vocabulary.identity, repr(pipeline.recipe.model), encoding.describe()]
    config += [prompt] if precision is None else [prompt, precision]
    digest = hashlib.sha256(json.dumps(config).encode())
    for name, weight in sorted(named_weights(pipeline.model).items()):
        stored = weight.detach().cpu().reshape(-1).view(torch.uint8)
        digest.update(name.encode() + stored.numpy().tobytes())
    return digest.hexdigest()
