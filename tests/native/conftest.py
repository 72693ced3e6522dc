"""Small models that together cover every config option the kernel supports."""

import torch

from jumok.models import EncoderDecoder, LanguageModel, TransformerConfig

SIZE = {"vocabulary_size": 77, "d_model": 24, "n_heads": 2, "d_ff": 50, "n_layers": 2}
KINDS = {
    "vaswani": {},
    "t5": {
        "norm_first": True,
        "norm": "rms",
        "activation": "gelu",
        "gated": True,
        "bias": False,
        "d_head": 20,  # neither d_model / n_heads nor a multiple of a SIMD vector
        "attention_scale": 1.0,
    },
    "gpt2": {"norm_first": True, "activation": "gelu_tanh", "scale_embedding": False},
    "untied": {
        "activation": "silu",
        "embedding_norm": True,
        "tie_embeddings": "none",
        "n_decoder_layers": 1,
    },
}
POSITIONS = (
    "sinusoidal",
    "sinusoidal_halves",
    "learned",
    "rotary",
    "sinusoidal_rotary",
    "relative",
    "none",
)


NOTES = {"ffn_projection": "conv1d", "fused_qkv": True, "position_offset": 1}  # same weights


def config(
    kind: str = "vaswani", positions: str = "sinusoidal", **more: object
) -> TransformerConfig:
    values = {**SIZE, **KINDS[kind], "positions": positions, "max_length": 40, **more}
    return TransformerConfig(**values)  # type: ignore[arg-type]


def encoder_decoder(
    kind: str = "vaswani", positions: str = "sinusoidal", **more: object
) -> EncoderDecoder:
    torch.manual_seed(1)
    return randomize_vectors(EncoderDecoder(config(kind, positions, **more)))


def language_model(kind: str = "vaswani", positions: str = "sinusoidal") -> LanguageModel:
    torch.manual_seed(1)
    return randomize_vectors(LanguageModel(config(kind, positions)))


def randomize_vectors(model):
    """The model with noise added to norm weights and biases, which start as 0 or 1."""
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 1:
                weight.add_(0.2 * torch.randn_like(weight))
    return model.eval()
