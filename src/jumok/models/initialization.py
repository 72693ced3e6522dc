"""Initialization: Xavier uniform for linear layers, 0 for biases, embeddings unchanged.

Glorot and Bengio 2010; the code of the paper initializes in the same way.
"""

from torch import nn


def initialize(model: nn.Module) -> None:
    """Initialize every linear layer of `model`; tied output layers keep the embedding's weights."""
    tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    for module in model.modules():
        if not isinstance(module, nn.Linear):
            continue
        if id(module.weight) not in tables:
            nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
