"""Position encodings: attention itself is invariant to token order (3.5).

Absolute positions are added to the embedding, rotary positions rotate queries and keys, a relative
bias is added to the scores. `POSITIONS` finds each kind by name.

Shapes: B batch, H heads, T queries, S keys, D model width, K head width.
"""

import math
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jumok.nn.rope import DEFAULT_ROPE, RopeConfig, rope_frequencies
from jumok.registry import Registry

if TYPE_CHECKING:
    from jumok.nn.config import LayerConfig


class RelativeVectors(NamedTuple):
    """One vector for each bucket of distances, and the bucket of each pair of positions."""

    vectors: Tensor  # (N, D)
    buckets: Tensor  # (T, S) int64


PositionBias: TypeAlias = Tensor | RelativeVectors | None  # (B|1, H|1, T, S), or what it is made of


class PositionEncoding:
    """A kind of position encoding; this one encodes nothing ("none").

    A derived class overrides the method of the place where it acts: the embedding, queries and
    keys, or the scores.
    """

    has_table: ClassVar[bool] = False  # `embedding` returns a module
    rotates: ClassVar[bool] = False  # `rotation` returns a module

    def embedding(self, max_length: int, d_model: int, offset: int) -> nn.Module | None:
        """A module from positions (B, T) to (B, T, D), which are added to the token vectors.

        Its attribute `offset` is the row of position 0; with an offset, padding has position -1.
        """
        return None

    def rotation(self, d_head: int, config: RopeConfig) -> nn.Module | None:
        """A module from positions (B, T) to the `Rotation` of queries and keys."""
        return None

    def bias(self, config: "LayerConfig", *, bidirectional: bool) -> nn.Module | None:
        """A module from T, S to what is added to the scores of all layers: (1, H, T, S).

        The T queries are the newest of the S positions; `bidirectional` is True in an encoder.
        """
        return None


POSITIONS = Registry[type[PositionEncoding]](
    "jumok.positions",
    "positions",
    {
        "sinusoidal": "jumok.nn.positions:Sinusoidal",
        "sinusoidal_halves": "jumok.nn.positions:SinusoidalHalves",
        "learned": "jumok.nn.positions:Learned",
        "rotary": "jumok.nn.positions:Rotary",
        "sinusoidal_rotary": "jumok.nn.positions:SinusoidalRotary",
        "relative": "jumok.nn.positions:Relative",
        "none": "jumok.nn.positions:PositionEncoding",
    },
)


def sinusoids(length: int, d_model: int, *, halves: bool = False) -> Tensor:
    """PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos(same angle): (length, D) float32.

    `halves` puts all sines before all cosines (Marian); the paper interleaves them.

    >>> sinusoids(2, 4)
    tensor([[0.0000, 1.0000, 0.0000, 1.0000],
            [0.8415, 0.5403, 0.0100, 0.9999]])
    >>> sinusoids(2, 4, halves=True)
    tensor([[0.0000, 0.0000, 1.0000, 1.0000],
            [0.8415, 0.0100, 0.5403, 0.9999]])
    """
    n_sines = (d_model + 1) // 2
    positions = torch.arange(length, dtype=torch.float64, device="cpu")[:, None]
    doubled = 2.0 * torch.arange(n_sines, dtype=torch.float64, device="cpu")  # 2i
    angle = positions / 10_000.0 ** (doubled / d_model)  # (length, D/2)
    sine, cosine = angle.sin(), angle.cos()[:, : d_model // 2]
    if halves:
        return torch.cat([sine, cosine], -1).float()
    table = torch.empty(length, d_model, device="cpu")
    table[:, 0::2], table[:, 1::2] = sine, cosine
    return table


class SinusoidalPositions(nn.Module):
    """Sines and cosines of decreasing frequency, not trained (3.5).

    Position 0 is row `offset` of the table.

    >>> tuple(SinusoidalPositions(16, 4)(torch.tensor([[0, 1, 2]])).shape)
    (1, 3, 4)
    """

    table: Tensor

    def __init__(
        self, max_length: int, d_model: int, *, halves: bool = False, offset: int = 0
    ) -> None:
        super().__init__()
        self.offset = offset
        # computed from the config when a model is loaded, so it is not saved
        table = sinusoids(offset + max_length, d_model, halves=halves)
        self.register_buffer("table", table, persistent=False)

    def forward(self, positions: Tensor) -> Tensor:
        """positions (B, T) -> (B, T, D)."""
        return F.embedding(positions + self.offset if self.offset else positions, self.table)


class LearnedPositions(nn.Embedding):
    """One trained vector per position (the paper's table 3, row E; BERT and GPT-2).

    The standard deviation starts at 0.02, small compared with the token vectors. The tables of
    RoBERTa and BART begin with unused rows: position 0 is row `offset`.

    >>> LearnedPositions(max_length=16, d_model=8)(torch.tensor([[0, 1, 2]])).shape  # (B, T, D)
    torch.Size([1, 3, 8])
    """

    def __init__(self, max_length: int, d_model: int, *, offset: int = 0) -> None:
        super().__init__(offset + max_length, d_model)
        self.offset = offset
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, positions: Tensor) -> Tensor:
        """positions (B, T) -> (B, T, D)."""
        return super().forward(positions + self.offset if self.offset else positions)


class Rotation:
    """Rotate each pair of a head's numbers by an angle proportional to the position (RoFormer).

    The dot product of a rotated query and a rotated key depends only on their distance.
    """

    def __init__(self, cosine: Tensor, sine: Tensor) -> None:
        self.cosine = cosine  # (B, 1, T, K)
        self.sine = sine  # (B, 1, T, K)

    def __call__(self, x: Tensor) -> Tensor:
        """x (B, H, T, K) rotated; number i is paired with number i + K/2."""
        first, second = x.chunk(2, -1)
        rotated = torch.cat([-second, first], -1)
        return x * self.cosine.to(x.dtype) + rotated * self.sine.to(x.dtype)


class NoRotation(Rotation):
    """The identity: leaves queries and keys unchanged."""

    def __init__(self) -> None:
        super().__init__(torch.ones(()), torch.zeros(()))

    def __call__(self, x: Tensor) -> Tensor:
        """x unchanged."""
        return x


NO_ROTATION: Rotation = NoRotation()


class RotaryPositions(nn.Module):
    """Rotary position embeddings (RoPE; Su et al. 2021, section 3.2).

    >>> rotate = RotaryPositions(d_head=4)(torch.tensor([[0, 3]]))
    >>> q = torch.ones(1, 1, 2, 4)
    >>> torch.equal(rotate(q)[0, 0, 0], q[0, 0, 0])  # position 0 is not rotated
    True
    """

    def __init__(self, d_head: int, config: RopeConfig = DEFAULT_ROPE) -> None:
        super().__init__()
        self.d_head = d_head
        self.config = config

    @property
    def frequencies(self) -> Tensor:
        """The angle of each pair at position 1: (K/2,)."""
        return rope_frequencies(self.config, self.d_head, torch.device("cpu"))

    def forward(self, positions: Tensor) -> Rotation:
        """positions (B, T) -> the rotation of tensors (B, H, T, K)."""
        # computed in float32 each time: as a buffer, a bfloat16 model would round it
        frequency = rope_frequencies(self.config, self.d_head, positions.device)  # (K/2,)
        angle = positions[:, None, :, None] * frequency  # (B, 1, T, K/2)
        angle = torch.cat([angle, angle], -1)  # (B, 1, T, K)
        return Rotation(angle.cos(), angle.sin())


class RelativePositionBias(nn.Module):
    """T5's bias: one trained number per head and bucket of distances, added to the scores.

    Short distances have one bucket each; longer ones share buckets logarithmically up to
    `max_distance` (Raffel et al. 2020, section 2.1).
    """

    def __init__(
        self, n_heads: int, *, bidirectional: bool, n_buckets: int = 32, max_distance: int = 128
    ) -> None:
        super().__init__()
        self.bidirectional = bidirectional
        self.n_buckets = n_buckets
        self.max_distance = max_distance
        self.bias = nn.Embedding(n_buckets, n_heads)

    def forward(self, T: int, S: int) -> Tensor:
        """The bias of the newest T of S positions towards all S: (1, H, T, S)."""
        positions = torch.arange(S, device=self.bias.weight.device)
        distance = positions[None, :] - positions[S - T :, None]  # (T, S), key minus query
        return self.bias(self.bucket(distance)).permute(2, 0, 1)[None]  # type: ignore[no-any-return]

    def bucket(self, distance: Tensor) -> Tensor:
        """The bucket of each distance (key position minus query position), any shape, int64.

        >>> bias = RelativePositionBias(1, bidirectional=True)
        >>> bias.bucket(torch.tensor([-200, -1, 0, 1, 8, 200]))
        tensor([15,  1,  0, 17, 24, 31])
        """
        n_buckets = self.n_buckets
        if self.bidirectional:  # half of the buckets for the future, half for the past
            n_buckets //= 2
            start = (distance > 0).long() * n_buckets
            distance = distance.abs()
        else:
            start = torch.zeros_like(distance)
            distance = (-distance).clamp(min=0)
        n_exact = n_buckets // 2
        log_ratio = (distance.clamp(min=1).float() / n_exact).log() / math.log(
            self.max_distance / n_exact
        )
        far = (n_exact + (log_ratio * (n_buckets - n_exact)).long()).clamp(max=n_buckets - 1)
        return start + torch.where(distance < n_exact, distance, far)


class Sinusoidal(PositionEncoding):
    """Sines and cosines in turns (3.5)."""

    has_table = True
    halves: ClassVar[bool] = False

    def embedding(self, max_length: int, d_model: int, offset: int) -> nn.Module:
        """The table of sinusoids."""
        return SinusoidalPositions(max_length, d_model, halves=self.halves, offset=offset)


class SinusoidalHalves(Sinusoidal):
    """All sines before all cosines (Marian)."""

    halves = True


class Learned(PositionEncoding):
    """A trained vector for each position (BERT)."""

    has_table = True

    def embedding(self, max_length: int, d_model: int, offset: int) -> nn.Module:
        """The trained table."""
        return LearnedPositions(max_length, d_model, offset=offset)


class Rotary(PositionEncoding):
    """Rotated queries and keys (RoFormer)."""

    rotates = True

    def rotation(self, d_head: int, config: RopeConfig) -> nn.Module:
        """The rotation with this base and scaling."""
        return RotaryPositions(d_head, config)


class SinusoidalRotary(Sinusoidal, Rotary):
    """Sines and cosines in turns, and rotated queries and keys.

    Cross-attention, which is never rotated, finds a place by its number; self-attention finds
    neighbours by their distance. Copying needs both (docs/LOG.md).
    """


class Relative(PositionEncoding):
    """A bias for each bucket of distances (T5)."""

    def bias(self, config: "LayerConfig", *, bidirectional: bool) -> nn.Module:
        """The bias with the buckets of the config."""
        return RelativePositionBias(
            config.n_heads,
            bidirectional=bidirectional,
            n_buckets=config.relative_attention_num_buckets,
            max_distance=config.relative_attention_max_distance,
        )
