"""The encoder and decoder inside a model, whatever its head."""

from torch import nn

from jumok.models.decoder import Decoder
from jumok.models.encoder import Encoder


def backbones(model: nn.Module) -> dict[str, Encoder | Decoder]:
    """The model's encoder and decoder, those it has, in this order.

    >>> from jumok.models import LanguageModel, TransformerConfig
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> list(backbones(LanguageModel(config))), list(backbones(Encoder(config)))
    (['decoder'], ['encoder'])
    """
    if isinstance(model, Encoder):
        return {"encoder": model}
    if isinstance(model, Decoder):
        return {"decoder": model}
    parts = {name: getattr(model, name, None) for name in ("encoder", "decoder")}
    return {name: part for name, part in parts.items() if isinstance(part, Encoder | Decoder)}
