"""The inputs of generation: prompt tokens, stopping criteria and sampling keys of every text.

Shapes: N texts, P prompt tokens, T new tokens at most.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from jumok.decoding.stopping import StoppingCriteria
from jumok.errors import DecodingError


@dataclass(frozen=True)
class GenerationInputs:
    """N texts to generate for.

    prompt_ids (N, P) int64 is what the decoder reads first; padding (N) is the number of padding
    tokens on the left of each prompt (None: none). sample_keys seed sampling, one number a text.

    >>> stopping = StoppingCriteria(end_id=3, limits=[2])
    >>> inputs = GenerationInputs(torch.tensor([[4, 5]]), stopping)
    >>> inputs.max_new_tokens, inputs.token_buffer()
    (2, tensor([[ 4,  5, -1, -1]]))

    Raises InputError unless each limit has a prompt of at least one token and is at least 1.
    """

    prompt_ids: Tensor
    stopping: StoppingCriteria
    sample_keys: Sequence[int] = ()
    padding: Tensor | None = None

    def __post_init__(self) -> None:
        limits = self.stopping.limits
        short = self.prompt_ids.shape[1] < 1 or min(limits, default=1) < 1
        if len(limits) != len(self.prompt_ids) or short:
            raise DecodingError(
                "decoding.prompt_ids_shape",
                "prompt_ids must have a row of at least one token for each limit, which is at "
                "least 1, got {shape} for the limits {limits!r:.60}",
                shape=tuple(self.prompt_ids.shape),
                limits=list(limits),
            )

    @property
    def max_new_tokens(self) -> int:
        """T: the highest of the limits."""
        return max(self.stopping.limits, default=0)

    def token_buffer(self) -> Tensor:
        """The prompts with space for T new tokens, -1 there and on padding: (N, P + T) int64."""
        N, P = self.prompt_ids.shape
        buffer = self.prompt_ids.new_full((N, P + self.max_new_tokens), -1)
        buffer[:, :P] = self.prompt_ids
        if self.padding is not None:
            positions = torch.arange(P, device=self.prompt_ids.device)
            buffer[:, :P].masked_fill_(positions < self.padding[:, None], -1)
        return buffer
