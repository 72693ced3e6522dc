"""The measures of a whole model; as they stand, those of the base model in the paper (table 3)."""

from dataclasses import dataclass
from typing import Literal

from jumok.errors import InputError
from jumok.nn.layer import LayerConfig

Positions = Literal["sinusoidal", "sinusoidal_halves", "learned", "rotary", "relative", "none"]
Tying = Literal["all", "target", "none"]


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(LayerConfig):
    """Encoder, decoder and encoder-decoder are all described by this one config."""

    vocabulary_size: int = 37_000  # the shared English-German vocabulary of section 5.1
    target_vocabulary_size: int | None = None  # None: one vocabulary for both sides
    n_layers: int = 6
    n_decoder_layers: int | None = None  # None: as many as the encoder has
    positions: Positions = "sinusoidal"  # halves in Marian, learned in BERT, relative in T5
    max_length: int = 1024  # positions; the paper names no limit
    n_segments: int = 0  # 2 in BERT; 0: no segment embedding
    scale_embedding: bool = True  # by sqrt(d_model), section 3.4
    embedding_norm: bool = False  # True in BERT
    tie_embeddings: bool | Tying = True  # see `tying`; source, target and output in section 3.4

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("vocabulary_size", "n_layers", "max_length"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} {getattr(self, name)} is not a size; give 1 or more")
        if self.n_decoder_layers is not None and self.n_decoder_layers < 1:
            raise InputError(f"n_decoder_layers {self.n_decoder_layers}: give 1 or more, or none")
        d_head = self.d_head or self.d_model // self.n_heads
        if self.positions == "rotary" and d_head % 2:
            raise InputError(
                f"rotary positions turn pairs, and d_head {d_head} is odd; make it even"
            )

    @property
    def tying(self) -> Tying:
        """Which tables are one: "all" (source, target and output), "target" (and output), "none".

        `tie_embeddings = true` ties all that have one vocabulary, false none.

        >>> TransformerConfig().tying, TransformerConfig(target_vocabulary_size=8_000).tying
        ('all', 'target')
        """
        if isinstance(self.tie_embeddings, str):
            return self.tie_embeddings
        if not self.tie_embeddings:
            return "none"
        return "all" if self.target_vocabulary_size is None else "target"

    @property
    def output_size(self) -> int:
        """How many tokens the decoder chooses from."""
        return self.target_vocabulary_size or self.vocabulary_size
