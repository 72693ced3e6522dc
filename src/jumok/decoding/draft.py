"""A small model that guesses ahead of a large one, over many texts, and how well it has guessed."""

from collections.abc import Sequence
from dataclasses import dataclass

from jumok.decoding.config import DecodingConfig
from jumok.decoding.generate import OnToken
from jumok.decoding.hypothesis import Hypothesis
from jumok.decoding.incremental.decoder import IncrementalDecoder
from jumok.decoding.inputs import GenerationInputs
from jumok.decoding.processors import Processor
from jumok.decoding.speculative import speculative
from jumok.models.encoder_decoder import EncoderDecoder
from jumok.models.heads import LanguageModel


@dataclass(eq=False)
class DraftModel:
    """The model that guesses, and counts over all that was written with its help.

    >>> from jumok.models import TransformerConfig
    >>> small = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> print(DraftModel(LanguageModel(small), passes=5, guessed=20, kept=13))
    13 of 20 guesses kept, 5 passes of the model
    """

    model: EncoderDecoder | LanguageModel
    target_passes: int = 0  # of the large model
    proposed: int = 0  # tokens that were offered to it
    accepted: int = 0  # of them

    def generate(
        self,
        target: IncrementalDecoder,
        draft_decoder: IncrementalDecoder,
        inputs: GenerationInputs,
        config: DecodingConfig,
        processors: Sequence[Processor],
        on_token: OnToken | None = None,
    ) -> list[list[Hypothesis]]:
        """What `generate` would write with the target alone, for one text."""
        found = speculative(target, draft_decoder, inputs, config, processors, on_token)
        self.target_passes += found.target_passes
        self.proposed += found.proposed
        self.accepted += found.accepted
        return [[found.hypothesis]]

    def __str__(self) -> str:
        """How well it guessed."""
        return f"{self.accepted} of {self.proposed} guesses kept, {self.target_passes} passes of the model"
