"""How large a model of some measures is at least, told from the measures: nothing is made."""

from jumok.models.config import TransformerConfig

MIN_LAYER_BYTES = 16_384  # the modules of a layer themselves, however few numbers they hold


def min_parameter_count(config: TransformerConfig) -> int:
    """How many numbers a model of these measures has at least: in its tables and its layers.

    The table of sines is among them: it is never learnt, and lies in memory all the same.

    >>> least_numbers(TransformerConfig())  # an encoder of the base model
    38342656
    """
    inner = config.n_heads * (config.d_head or config.d_model // config.n_heads)
    layer = 4 * config.d_model * inner + 2 * config.d_model * config.d_ff
    n_layers = config.n_layers + (config.n_decoder_layers or 0)
    absolute = config.positions in ("learned", "sinusoidal", "sinusoidal_halves")
    places = config.max_length if absolute else 0
    buckets = (
        config.relative_attention_num_buckets * config.n_heads
        if config.positions == "relative"
        else 0
    )
    rows = config.vocabulary_size + config.n_segments + places
    return n_layers * layer + rows * config.embedding_dim + buckets


def min_bytes(config: TransformerConfig, *, copies: int = 1) -> int:
    """What a model of these measures takes at least, with so many float32 for each number.

    >>> least_bytes(TransformerConfig(), copies=4)  # weights, gradients and AdamW's two moments
    613580800
    """
    n_layers = config.n_layers + (config.n_decoder_layers or 0)
    return 4 * copies * min_parameter_count(config) + n_layers * MIN_LAYER_BYTES
