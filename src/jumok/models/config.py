"""The hyperparameters of a model; the defaults are the base model of the paper (table 3)."""

from dataclasses import dataclass
from typing import Literal

from jumok.config_io import check_range
from jumok.errors import ConfigError
from jumok.nn.config import MAX_DIMENSION, Activation, LayerConfig, check_dimension
from jumok.nn.rope import DEFAULT_ROPE

Tying = Literal["all", "inputs", "target", "none"]

TokenPooling = Literal["first", "mean", "max"]
Pooling = Literal["first", "mean", "max", "compare"]  # "compare" of a `PairClassifier`

SentencePooling = Literal["first", "mean", "max", "last"]  # of vectors of texts

# A dense layer with this activation after the pooling: tanh in BERT, gelu in ELECTRA, relu in
# DistilBERT.
Pooler = Literal["none", "tanh", "gelu", "relu"]

MAX_TABLE_POSITIONS = 2**17  # of a table that is computed; a config may claim any max_length

# Whether each kind of positions has a table, and whether it rotates queries and keys: those of the
# classes in `jumok.nn.positions`, which need torch.
OWN_POSITIONS = {
    "sinusoidal": (True, False),
    "sinusoidal_halves": (True, False),
    "learned": (True, False),
    "rotary": (False, True),
    "sinusoidal_rotary": (True, True),
    "relative": (False, False),
    "none": (False, False),
}


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(LayerConfig):
    """The config of an encoder, a decoder or an encoder-decoder.

    The defaults are the base model of the paper (table 3). Raises InputError for a value that
    cannot be built, with the nearest valid choice.

    >>> TransformerConfig(positions="sinusodial")
    Traceback (most recent call last):
        ...
    jumok.errors.InputError: positions must be a known name, got 'sinusodial'; did you mean \
sinusoidal?

    Of a model:

    vocabulary_size         rows of the token embedding
    target_vocabulary_size  of a second vocabulary for targets; None: one for both sides
    n_layers                layers of the encoder, or of a decoder alone; 0: an encoder of token
                            vectors alone
    n_decoder_layers        of the decoder of an encoder-decoder; None: n_layers
    positions               "sinusoidal" (3.5), "sinusoidal_halves" (Marian), "learned" (BERT),
                            "rotary" (RoFormer), "sinusoidal_rotary" (both), "relative" (T5),
                            "none", or a name in the registry "jumok.positions"
    max_length              tokens of a text at most
    position_offset         row of position 0 in the table: 2 in RoBERTa and BART; 1 counts from 1.
                            Padding has the row before it
    n_segments              rows of the segment embedding: 2 in BERT; 0: none
    scale_embedding         multiply token vectors by sqrt(d_model) (3.4)
    embedding_norm          normalize the sum of the embeddings (BERT)
    d_embedding             width of the embeddings, then projected; None: d_model
    tie_embeddings          which weights are one matrix: true (all of one vocabulary), false,
                            "all", "inputs" (source and target), "target" (and output), "none"
    output_bias             whether the decoder's output layer has a bias (Marian)
    scale_output            multiply by 1/sqrt(d_model) before the output layer (T5 if tied)
    output_softcap          c: logits are c tanh(logit / c); None: unchanged
    head_activation         of the masked-token head
    head_bias               whether the dense layer of that head has a bias
    head_transform          whether classifiers of texts and tokens have the dense layer, the
                            activation and the norm of that head before their output
    """

    vocabulary_size: int = 37_000  # the shared English-German vocabulary (5.1)
    target_vocabulary_size: int | None = None  # None: one vocabulary for both sides
    n_layers: int = 6
    n_decoder_layers: int | None = None  # None: as many as in the encoder
    positions: str = "sinusoidal"  # *_halves in Marian, learned in BERT, relative in T5
    max_length: int = 1024  # positions; the paper sets no limit
    position_offset: int = 0  # row of position 0: 2 in RoBERTa and BART; padding has the row before
    n_segments: int = 0  # 2 in BERT; 0: no segment embedding
    scale_embedding: bool = True  # by sqrt(d_model), section 3.4
    embedding_norm: bool = False  # True in BERT
    d_embedding: int | None = None  # None: d_model; smaller in ELECTRA, then projected
    tie_embeddings: bool | Tying = True  # see `tying`; source, target and output in section 3.4
    output_bias: bool = False  # of the decoder's output layer; True in Marian
    scale_output: bool = False  # by 1/sqrt(d_model) before the output; True in T5 if tied
    output_softcap: float | None = None  # c: logits are c tanh(logit / c); 30 in Gemma 2
    head_activation: Activation = "gelu"  # of the masked-token head
    head_bias: bool = True  # of its dense layer; False in ModernBERT
    head_transform: bool = False  # the same layers in classifiers; True in ModernBERT

    def __post_init__(self) -> None:
        super().__post_init__()
        has_table, rotates = _places(self.positions)
        if self.positions.startswith("sinusoidal"):
            rotary = "; use rotary positions for longer texts"
            check_range("max_length", self.max_length, f"[1, {MAX_TABLE_POSITIONS}]", rotary)
        for name in ("vocabulary_size", "max_length", "embedding_dim"):
            check_dimension(name, getattr(self, name))
        check_range("n_layers", self.n_layers, f"[0, {MAX_DIMENSION}]")
        if self.target_vocabulary_size is not None:
            check_dimension("target_vocabulary_size", self.target_vocabulary_size)
        check_range("position_offset", self.position_offset, "[0, inf)")
        if self.position_offset and not has_table:
            raise ConfigError(
                "model.position_offset_without_table",
                'position_offset must be 0 with positions="{positions}", which has no table of '
                "positions, got {position_offset}; leave it out",
                positions=self.positions,
                position_offset=self.position_offset,
            )
        check_range("n_segments", self.n_segments, "[0, inf)", "; 0 means none")
        if self.n_decoder_layers is not None:
            check_range("n_decoder_layers", self.n_decoder_layers, "[1, inf)", "; or leave it out")
        if self.output_softcap is not None:
            check_range("output_softcap", self.output_softcap, "(0, inf)", "; or leave it out")
        if not rotates and (self.local_rope, self.rope) != (None, DEFAULT_ROPE):
            raise ConfigError(
                "model.rope_without_rotation",
                'positions must be "rotary" with rope or local_rope, got "{positions}"',
                positions=self.positions,
            )
        if self.attention == "disentangled" and self.positions == "relative":
            raise ConfigError(
                "model.two_relative_positions",
                'positions must not be "relative" with attention = "disentangled", which has '
                'relative positions of its own; try "none"',
            )
        d_head = self.d_head or self.d_model // self.n_heads
        if rotates and d_head % 2:
            raise ConfigError(
                "model.odd_d_head",
                "d_head must be even for rotary positions, got {d_head}; try {d_head_2}",
                d_head=d_head,
                d_head_2=d_head + 1,
            )

    @property
    def tying(self) -> Tying:
        """Which weights are tied: "all", "inputs" (source, target), "target" (and output), "none".

        `tie_embeddings = true` ties all weights of the same vocabulary, false none.

        >>> TransformerConfig().tying, TransformerConfig(target_vocabulary_size=8_000).tying
        ('all', 'target')
        """
        if isinstance(self.tie_embeddings, str):
            return self.tie_embeddings
        if not self.tie_embeddings:
            return "none"
        return "all" if self.target_vocabulary_size is None else "target"

    @property
    def embedding_dim(self) -> int:
        """The width of the embeddings of tokens, positions and segments."""
        return self.d_model if self.d_embedding is None else self.d_embedding

    @property
    def output_size(self) -> int:
        """The size of the decoder's output vocabulary."""
        return self.target_vocabulary_size or self.vocabulary_size


def _places(positions: str) -> tuple[bool, bool]:
    """Whether a kind of positions has a table and rotates. Raises InputError if it is unknown."""
    if positions in OWN_POSITIONS:
        return OWN_POSITIONS[positions]
    from jumok.nn.positions import POSITIONS  # an extension, which needs torch

    encoding = POSITIONS.get(positions)
    return encoding.has_table, encoding.rotates


# help(TransformerConfig) explains the inherited fields as well.
TransformerConfig.__doc__ = f"{TransformerConfig.__doc__}\n{LayerConfig.__doc__}"
