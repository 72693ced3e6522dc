"""How weights begin: Xavier's uniform for every linear map, biases at 0, embeddings as they came.

Glorot and Bengio 2010; the paper's own code began so.
"""

from torch import nn


def initialize(model: nn.Module) -> None:
    """Begin every linear map of `model` anew; tied output tables keep the embedding's numbers."""
    tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    for module in model.modules():
        if not isinstance(module, nn.Linear):
            continue
        if id(module.weight) not in tables:
            nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
