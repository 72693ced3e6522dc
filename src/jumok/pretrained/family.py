"""What a family of foreign models is: one translation of its config, one table of its names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor, nn

from jumok.models.config import TransformerConfig
from jumok.models.pooling import Pooler
from jumok.nn.feedforward import Activation
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
"""Which of our modules a checkpoint becomes."""


@dataclass(frozen=True)
class Head:
    """What stands on the towers in one of a family's architectures.

    `carried` are names (regular expressions, whole) of tensors such a checkpoint may hold that its
    answers never need: they are kept for the way back. `same` are the second names of tensors that
    may be stored twice, each with its first name; of carried ones the two may differ.
    """

    kind: HeadKind
    rules: tuple[NameRule, ...] = ()
    unused: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    optional: tuple[str, ...] = ()  # may be missing from a file: then they are zeros
    pooler: Pooler = "none"
    activation: Activation | None = None  # of the head, where it is not that of the layers
    output_bias: bool = False  # of an encoder-decoder's output
    has_task: bool = True  # False: towers alone, or a head nobody asks for answers


BufferCheck = Callable[[nn.Module, Tensor], bool]
"""Whether a tensor that is computed, not learned, is the one our module computes."""


@dataclass(frozen=True)
class Family:
    """Checkpoints of one `model_type`.

    `prefix` stands before the names of the towers wherever there is a head; a body saved alone has
    none. `body` are the lines of the towers, as a model with a head has them. `computed` names
    (regular expressions) tensors that no training made.
    """

    model_type: str
    prefix: str
    read_config: Callable[[ConfigReader], TransformerConfig]
    backbone: Callable[[TransformerConfig], tuple[NameRule, ...]]
    heads: Callable[[ConfigReader], Mapping[str, Head]]
    derived_buffers: Mapping[str, BufferCheck]
