"""Lower bounds of a model's size, computed from its config without building it."""

from jumok.errors import ConfigError
from jumok.models.config import TransformerConfig

MAX_EXTRA_WEIGHTS = 10_000_000  # allowed beyond the stored ones: then wrong shapes are listed
MIN_LAYER_BYTES = 16_384  # the Python objects of a layer, however few parameters it has


def min_parameter_count(config: TransformerConfig) -> int:
    """The minimum number of parameters of a model: embeddings and layers.

    The table of sinusoids counts too: it is not trained, but takes memory.

    >>> min_parameter_count(TransformerConfig())  # an encoder of the base model
    38342656
    """
    d_head = config.d_head or config.d_model // config.n_heads
    heads = 2 * config.n_heads + 2 * (config.n_kv_heads or config.n_heads)  # q and output, k and v
    layer = heads * d_head * config.d_model + 2 * config.d_model * config.d_ff
    n_layers = config.n_layers + (config.n_decoder_layers or 0)
    absolute = config.positions == "learned" or config.positions.startswith("sinusoidal")
    positions = config.max_length if absolute else 0  # of an extension: not known
    buckets = (
        config.relative_attention_num_buckets * config.n_heads
        if config.positions == "relative"
        else 0
    )
    rows = config.vocabulary_size + config.n_segments + positions
    return n_layers * layer + rows * config.embedding_dim + buckets


def min_bytes(config: TransformerConfig, *, copies: int = 1) -> int:
    """The minimum memory of a model with `copies` float32 numbers per parameter.

    >>> min_bytes(TransformerConfig(), copies=4)  # weights, gradients and AdamW's two moments
    613580800
    """
    n_layers = config.n_layers + (config.n_decoder_layers or 0)
    return 4 * copies * min_parameter_count(config) + n_layers * MIN_LAYER_BYTES


def check_model_size(config: TransformerConfig, n_stored: int) -> None:
    """Raise InputError if the config needs far more weights than the `n_stored` ones."""
    n_weights = min_parameter_count(config)
    if n_weights > max(4 * n_stored, MAX_EXTRA_WEIGHTS):
        raise ConfigError(
            "model.config_of_other_weights",
            "config.json must describe the stored weights, got a model of at least {n_weights:,} "
            "weights and {n_stored:,} stored ones; give the checkpoint's own config.json and "
            "weights",
            n_weights=n_weights,
            n_stored=n_stored,
        )
