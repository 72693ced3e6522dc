"""A family of Hugging Face models: how to read its config, and its name map."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor, nn

from jumok.models.config import Pooler, TokenPooling, TransformerConfig
from jumok.nn.config import Activation
from jumok.pretrained.config_reader import ConfigReader
from jumok.pretrained.name_map import NameRule

HeadKind = Literal[
    "encoder",
    "decoder",
    "encoder_decoder",
    "text_classifier",
    "token_classifier",
    "masked_language_model",
    "replaced_token_detector",
    "language_model",
]
"""The jumok module that a checkpoint is loaded into."""


@dataclass(frozen=True)
class Head:
    """The head on the backbone in one architecture of a family.

    `unused` are regular expressions (full match) of tensors that a checkpoint may contain and the
    model does not use: they are kept for saving. `aliases` maps the second name of a tensor that
    may be stored twice to its first name; the two may differ if the tensor is unused.
    """

    kind: HeadKind
    rules: tuple[NameRule, ...] = ()
    unused: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    optional: tuple[str, ...] = ()  # zeros if missing from the file
    pooling: TokenPooling = "first"  # of a text classifier
    pooler: Pooler = "none"
    activation: Activation | None = None  # of the head, if not that of the layers
    output_bias: bool = False  # of the output map of an encoder-decoder
    has_task: bool = True  # False: a backbone, or a head without a jumok task


BufferCheck = Callable[[nn.Module, Tensor], bool]
"""Whether a stored buffer that is derived, not learned, has the expected values."""


@dataclass(frozen=True)
class Family:
    """Checkpoints of one `model_type`.

    `prefix` precedes the names of the backbone in a model with a head; a backbone saved without a
    head has none. `backbone` returns the rules of the backbone with its prefix. `derived_buffers`
    are regular expressions of tensors that are not learned. `synonyms` replace, one after the
    other, other names of the same tensors (regular expressions) by those of the rules.
    """

    model_type: str
    prefix: str
    read_config: Callable[[ConfigReader], TransformerConfig]
    backbone: Callable[[TransformerConfig], tuple[NameRule, ...]]
    heads: Callable[[ConfigReader], Mapping[str, Head]]
    derived_buffers: Mapping[str, BufferCheck]
    synonyms: tuple[tuple[str, str], ...] = ()
