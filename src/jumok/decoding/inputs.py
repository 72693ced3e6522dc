"""What a writing begins with: the first tokens of every text, how long each may get, its key.

Shapes: N texts, P tokens given, T tokens that may be written at most.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from jumok.decoding.stopping import StoppingCriteria
from jumok.errors import InputError


@dataclass(frozen=True)
class GenerationInputs:
    """N texts about to be written.

    first (N, P) int64 is what the writer is given; padding (N) says how many fillers stand before
    each text (None: none). keys are what random draws are made from, one number a text.
    """

    prompt_ids: Tensor
    stopping: StoppingCriteria
    sample_keys: Sequence[int] = ()
    padding: Tensor | None = None

    def __post_init__(self) -> None:
        limits = self.stopping.limits
        if len(limits) != len(self.prompt_ids) or self.prompt_ids.shape[1] < 1:
            raise InputError(
                f"first tokens {tuple(self.prompt_ids.shape)} and {len(limits)} limits came; give at "
                "least one token, and one limit, for each text"
            )
        if min(limits, default=1) < 1:
            raise InputError(f"a limit of {min(limits)} tokens writes nothing; give 1 or more")

    @property
    def max_new_tokens(self) -> int:
        """T: the highest of the limits."""
        return max(self.stopping.limits, default=0)

    def token_buffer(self) -> Tensor:
        """A table for everything, -1 where nothing is yet and for fillers: (N, P + T) int64."""
        N, P = self.prompt_ids.shape
        buffer = self.prompt_ids.new_full((N, P + self.max_new_tokens), -1)
        buffer[:, :P] = self.prompt_ids
        if self.padding is not None:
            places = torch.arange(P, device=self.prompt_ids.device)
            buffer[:, :P].masked_fill_(places < self.padding[:, None], -1)
        return buffer
