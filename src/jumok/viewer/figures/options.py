"""What figures are asked for by; nothing is drawn here."""

from typing import Literal, TypeAlias, get_args

Kind: TypeAlias = Literal[
    "attention", "heads", "lines", "model", "alignment", "neuron", "positions", "explanation"
]
Head: TypeAlias = int | Literal["mean", "max"]  # one of a layer, or all as one
Layer: TypeAlias = int | Literal["all"]  # "all": of an alignment, all heads of all layers as one
Rows: TypeAlias = Literal["read", "predicted"]  # which token a row of an alignment belongs to
Palette: TypeAlias = Literal["ink", "cividis", "viridis", "grey"]
Scale: TypeAlias = Literal["linear", "sqrt"]  # sqrt: small weights are lifted by a root

KINDS: tuple[Kind, ...] = get_args(Kind)
ROWS: tuple[Rows, ...] = get_args(Rows)
SCALES: tuple[Scale, ...] = get_args(Scale)
