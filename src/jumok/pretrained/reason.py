"""A config.json may name any sizes: nothing is made that is far larger than what lies beside it."""

from jumok.errors import InputError
from jumok.models.config import TransformerConfig

FREE = 10_000_000  # numbers that may be asked for beyond what came: wrong shapes are listed then


def least_numbers(config: TransformerConfig) -> int:
    """How many numbers a model of these measures has at least: in its tables and its layers.

    >>> least_numbers(TransformerConfig())  # an encoder of the base model
    37818368
    """
    inner = config.n_heads * (config.d_head or config.d_model // config.n_heads)
    layer = 4 * config.d_model * inner + 2 * config.d_model * config.d_ff
    n_layers = config.n_layers + (config.n_decoder_layers or 0)
    places = config.max_length if config.positions == "learned" else 0
    buckets = config.relative_buckets * config.n_heads if config.positions == "relative" else 0
    rows = config.vocabulary_size + config.n_segments + places
    return n_layers * layer + rows * config.width + buckets


def refuse_giants(config: TransformerConfig, held: int) -> None:
    """Raises InputError when the config asks for far more than the `held` numbers that came."""
    wanted = least_numbers(config)
    if wanted > max(4 * held, FREE):
        raise InputError(
            f"config.json describes {wanted:,} numbers or more, and {held:,} came; give the "
            "checkpoint's own config.json and weights"
        )
